// Compare answers requests about many tools twice, from a bundle and by a service, and compares both with the answers that
// are wanted. Standard input has a CheckToolsRequest, the CheckToolsResponse and a CheckToolResponse for each of its tools, and
// so on: each message after its length in four bytes.
//
//	go run ./internal/compare policy.bundle 127.0.0.1:7420 < messages
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/remote"
	v1 "github.com/callability/callability/clients/go/remote/v1"
)

func main() {
	if err := run(context.Background(), os.Args[1:], bufio.NewReader(os.Stdin)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string, in io.Reader) error {
	if len(arguments) != 2 {
		return errors.New("usage: compare BUNDLE ADDRESS < messages")
	}
	policy, err := callability.ReadPolicyFile(arguments[0])
	if err != nil {
		return err
	}
	client, err := remote.Dial([]string{arguments[1]}, remote.WithAttemptTimeout(2*time.Minute))
	if err != nil {
		return err
	}
	defer client.Close()
	calls, compared := v1.NewCallabilityServiceClient(client), 0
	for {
		var request v1.CheckToolsRequest
		var wanted v1.CheckToolsResponse
		if err := errors.Join(read(in, &request), read(in, &wanted)); errors.Is(err, io.EOF) {
			fmt.Println(compared)
			return nil
		} else if err != nil {
			return err
		}
		reply, err := calls.CheckTools(ctx, &request)
		if err != nil {
			return err
		}
		if !proto.Equal(reply, &wanted) {
			return fmt.Errorf("%v:\nthe service says %v\nwanted %v", &request, reply, &wanted)
		}
		count, err := compare(policy, &request, &wanted)
		if err == nil {
			err = compareAlone(ctx, client, policy, &request, in)
		}
		if err != nil {
			return err
		}
		compared += count
	}
}

func read(in io.Reader, message proto.Message) error {
	var size uint32
	if err := binary.Read(in, binary.BigEndian, &size); err != nil {
		return err
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(in, text); err != nil {
		return fmt.Errorf("found a message that is cut: %v", err)
	}
	return proto.Unmarshal(text, message)
}

// compare decides about each tool from the bundle, and returns how many there are.
func compare(policy *callability.Policy, request *v1.CheckToolsRequest, wanted *v1.CheckToolsResponse) (int, error) {
	words := map[string]*v1.ToolWords{}
	for _, each := range wanted.GetWords() {
		words[fmt.Sprint(int(each.GetStatus()), each.GetRule())] = each
	}
	agent, compared := agentOf(request.GetAgent()), 0
	for place, group := range request.GetServers() {
		server := callability.NewServer(group.GetName(), serverFacts(group.GetFacts()))
		for number, tool := range group.GetTools() {
			verdict := policy.Decide(agent, server.Tool(tool.GetName(), toolFacts(tool.GetFacts())))
			result := wanted.GetServers()[place].GetResults()[number]
			if found := messageOf(verdict); !proto.Equal(found, result) {
				return compared, fmt.Errorf("%v and %v of %v: found %v, wanted %v", tool, group.GetFacts(), request.GetAgent(), found, result)
			}
			own := verdict.Words()
			said := words[fmt.Sprint(int(own.Status), own.Rule)]
			if own.Remediation != said.GetRemediation() || own.Rejection != said.GetRejection() {
				return compared, fmt.Errorf("%v: found the words %+v, wanted %v", tool, own, said)
			}
			compared++
		}
	}
	return compared, nil
}

// compareAlone reads the answer about each tool alone, decides about it from the bundle, and compares which locks remain. The
// service is asked about the first tool of each server.
func compareAlone(
	ctx context.Context, client *remote.Client, policy *callability.Policy, request *v1.CheckToolsRequest, in io.Reader,
) error {
	agent := agentOf(request.GetAgent())
	for _, group := range request.GetServers() {
		server := callability.NewServer(group.GetName(), serverFacts(group.GetFacts()))
		for number, tool := range group.GetTools() {
			var reply v1.CheckToolResponse
			if err := read(in, &reply); err != nil {
				return err
			}
			handle := server.Tool(tool.GetName(), toolFacts(tool.GetFacts()))
			wanted := remote.AnswerOf(&reply)
			if found := policy.Decide(agent, handle).Answer().Remaining; !reflect.DeepEqual(found, wanted.Remaining) {
				return fmt.Errorf("%v and %v of %v: found that %+v remains, wanted %+v", tool, group.GetFacts(), request.GetAgent(), found,
					wanted.Remaining)
			}
			if number > 0 {
				continue
			}
			if found, err := client.Check(ctx, agent, handle); err != nil || !reflect.DeepEqual(found, wanted) {
				return fmt.Errorf("%v and %v: the service says %+v and error %v, wanted %+v", tool, group.GetFacts(), found, err, wanted)
			}
		}
	}
	return nil
}

func messageOf(verdict callability.Verdict) *v1.ToolResult {
	var item *callability.ItemError
	if errors.As(verdict.Err(), &item) {
		return &v1.ToolResult{Result: &v1.ToolResult_Error{Error: &v1.ItemError{Reason: item.Reason, Message: item.Message}}}
	}
	return &v1.ToolResult{Result: &v1.ToolResult_Verdict{Verdict: &v1.ToolVerdict{
		Status: v1.ToolStatus(verdict.Status()), Rule: verdict.Rule(), Undetermined: verdict.Undetermined(),
		LiftedBy: v1.LiftedBy(verdict.LiftedBy()), Retry: v1.Retry(verdict.Retry()), WithholdText: verdict.WithholdText(),
		Unread: slices.Clip(verdict.Unread()),
	}}}
}
