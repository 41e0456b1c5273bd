package remote

import (
	"context"
	"fmt"

	"github.com/callability/callability/clients/go/callability"
	v1 "github.com/callability/callability/clients/go/remote/v1"
)

// maxRounds is how often the tools are asked about again if the revision changes meanwhile.
const maxRounds = 6

// Judge decides about many tools for a discovery answer or counts, and joins the answers by an adapter. It asks in parts if
// the tools do not fit in one request. A tool that no request can hold is held back.
func (c *Client) Judge(
	ctx context.Context, adapter callability.Adapter, agent *callability.Agent, tools []*callability.Tool,
) (*callability.Judgement, error) {
	replies, err := c.checkAll(ctx, batches(CheckToolsRequest(agent, tools)))
	if err != nil {
		return nil, err
	}
	var items []callability.Item
	var words []callability.Words
	for _, reply := range replies {
		for _, server := range reply.GetServers() {
			for _, result := range server.GetResults() {
				tool := tools[len(items)]
				items = append(items, callability.Item{
					Server: tool.Server().Name(), Tool: tool.Name(), Answer: VerdictOf(result.GetVerdict()),
				})
			}
		}
		for _, each := range reply.GetWords() {
			words = append(words, WordsOf(each))
		}
	}
	return adapter.Judgement(items, words...), nil
}

// checkAll returns the replies to some requests, all of one revision.
func (c *Client) checkAll(ctx context.Context, requests []*v1.CheckToolsRequest) ([]*v1.CheckToolsResponse, error) {
	replies, revision := map[string][]*v1.CheckToolsResponse{}, ""
	for range maxRounds {
		for place, request := range requests {
			if known := replies[revision]; known != nil && known[place] != nil {
				continue
			}
			reply, err := c.checkTools(ctx, request)
			if err != nil {
				return nil, err
			}
			if revision = reply.GetRevision(); replies[revision] == nil {
				replies[revision] = make([]*v1.CheckToolsResponse, len(requests))
			}
			replies[revision][place] = reply
		}
		if isComplete(replies[revision]) {
			return replies[revision], nil
		}
	}
	return nil, fmt.Errorf("%w: the policy changes with each answer", ErrUnavailable)
}

func isComplete(replies []*v1.CheckToolsResponse) bool {
	for _, reply := range replies {
		if reply == nil {
			return false
		}
	}
	return true
}

func (c *Client) checkTools(ctx context.Context, request *v1.CheckToolsRequest) (*v1.CheckToolsResponse, error) {
	reply, err := v1.NewCallabilityServiceClient(c).CheckTools(ctx, request)
	if err != nil {
		return nil, err
	}
	if found, wanted := len(reply.GetServers()), len(request.GetServers()); found != wanted {
		return nil, fmt.Errorf("%w: found the results of %d servers, wanted %d", ErrUnavailable, found, wanted)
	}
	for place, server := range request.GetServers() {
		found, wanted := len(reply.GetServers()[place].GetResults()), len(server.GetTools())
		if found != wanted {
			return nil, fmt.Errorf("%w: found %d results, wanted %d", ErrUnavailable, found, wanted)
		}
	}
	return reply, nil
}
