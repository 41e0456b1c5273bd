package remote_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/remote"
	v1 "github.com/callability/callability/clients/go/remote/v1"
)

// A counting service has the revisions of its answers given. It finds every tool callable, but of those with a long name.
type counting struct {
	v1.UnimplementedCallabilityServiceServer
	revisions func(call int) string
	mutex     sync.Mutex
	requests  []*v1.CheckToolsRequest
}

func (c *counting) received() []*v1.CheckToolsRequest {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.requests
}

func (c *counting) CheckTools(_ context.Context, request *v1.CheckToolsRequest) (*v1.CheckToolsResponse, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	reply := &v1.CheckToolsResponse{Revision: c.revisions(len(c.requests))}
	c.requests = append(c.requests, request)
	for _, server := range request.GetServers() {
		results := &v1.ServerResults{}
		for _, tool := range server.GetTools() {
			result := &v1.ToolResult{Result: &v1.ToolResult_Verdict{Verdict: &v1.ToolVerdict{Status: v1.ToolStatus_TOOL_STATUS_CALLABLE}}}
			if len(tool.GetName()) > 512 {
				result = &v1.ToolResult{Result: &v1.ToolResult_Error{Error: &v1.ItemError{Reason: "NAME_TOO_LONG"}}}
			}
			results.Results = append(results.Results, result)
		}
		reply.Servers = append(reply.Servers, results)
	}
	return reply, nil
}

func (c *counting) dial(t *testing.T) *remote.Client {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(16 << 20))
	v1.RegisterCallabilityServiceServer(server, c)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	found, err := remote.Dial([]string{listener.Addr().String()}, remote.WithAttemptTimeout(generous))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = found.Close() })
	return found
}

func many(servers, tools int, facts callability.ToolFacts) (found []*callability.Tool) {
	for server := range servers {
		handle := callability.NewServer(fmt.Sprintf("server-%d", server), callability.ServerFacts{})
		for tool := range tools {
			found = append(found, handle.Tool(fmt.Sprintf("tool-%d", tool), facts))
		}
	}
	return found
}

func TestARequestIsWithinTheLimitsOfTheService(t *testing.T) {
	labels := callability.Labels{}
	for number := range 60 {
		labels[fmt.Sprintf("key-%d", number)] = strings.Repeat("x", 500)
	}
	for name, tools := range map[string][]*callability.Tool{
		"no tool":       nil,
		"20,001 tools":  many(1, 20_001, callability.ToolFacts{}),
		"2,001 servers": many(2_001, 2, callability.ToolFacts{}),
		"18 MB":         many(2, 300, callability.ToolFacts{Labels: labels}),
	} {
		service := &counting{revisions: func(int) string { return "r" }}
		judgement, err := service.dial(t).Judge(t.Context(), callability.Adapter{}, nil, tools)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if found := len(judgement.CallableNames()); found != len(tools) {
			t.Errorf("%s: found %d tools, wanted %d", name, found, len(tools))
		}
		for _, request := range service.received() {
			count := 0
			for _, server := range request.GetServers() {
				count += len(server.GetTools())
			}
			if size := proto.Size(request); size > 8<<20 || count > 20_000 || len(request.GetServers()) > 2_000 {
				t.Errorf("%s: found a request of %d bytes, %d tools and %d servers", name, size, count, len(request.GetServers()))
			}
		}
	}
}

func TestAToolTooLargeForAnyRequestIsHeldBackByItself(t *testing.T) {
	service := &counting{revisions: func(int) string { return "r" }}
	server := callability.NewServer("git", callability.ServerFacts{})
	large := callability.ToolFacts{Labels: callability.Labels{"key": strings.Repeat("x", 70_000)}}
	tools := []*callability.Tool{
		server.Tool("read", callability.ToolFacts{}), server.Tool(strings.Repeat("x", 100_000), callability.ToolFacts{}),
		server.Tool("large", large), server.Tool("\xff", callability.ToolFacts{}), server.Tool("write", callability.ToolFacts{}),
	}
	judgement, err := service.dial(t).Judge(t.Context(), callability.Adapter{}, nil, tools)
	if err != nil {
		t.Fatal(err)
	}
	if found := judgement.CallableNames(); !slices.Equal(found, []string{"git:read", "git:write"}) {
		t.Errorf("found %q", found)
	}
	if judgement.Status("git:large") != callability.StatusDisabledUnknown || judgement.Searchable("git:large") {
		t.Errorf("found %s", judgement.Status("git:large"))
	}
}

func TestAJudgementIsOfOneRevision(t *testing.T) {
	tools := many(2_001, 1, callability.ToolFacts{})
	for name, each := range map[string]struct {
		revisions func(int) string
		requests  int
	}{
		"a policy that changes once": {func(call int) string { return fmt.Sprint(call > 0) }, 3},
		"one that always changes":    {func(call int) string { return fmt.Sprint(call) }, 7},
	} {
		service := &counting{revisions: each.revisions}
		_, err := service.dial(t).Judge(t.Context(), callability.Adapter{}, nil, tools)
		if len(service.received()) < each.requests || (each.requests > 3) != errors.Is(err, remote.ErrUnavailable) {
			t.Errorf("%s: found %d requests and %v", name, len(service.received()), err)
		}
	}
}
