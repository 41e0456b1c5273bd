package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/callabilitytest"
	"github.com/callability/callability/clients/go/gateway"
	"github.com/callability/callability/clients/go/mark3labs"
	"github.com/callability/callability/clients/go/shipped"
)

// A session is a real MCP session with the proxy.
type session struct {
	client *client.Client
	called *atomic.Int64
}

func (s session) tool(ctx context.Context, name string, arguments any) (json.RawMessage, error) {
	result, err := s.client.CallTool(ctx, mcp.CallToolRequest{Params: mcp.CallToolParams{Name: name, Arguments: arguments}})
	if err != nil {
		return nil, err
	}
	return json.Marshal(result)
}

func (s session) Discover(ctx context.Context, arguments json.RawMessage) (json.RawMessage, error) {
	return s.tool(ctx, "retrieve_tools", arguments)
}

func (s session) Call(ctx context.Context, name string) (json.RawMessage, error) {
	return s.tool(ctx, "call_tool", map[string]any{"name": name, "arguments": map[string]any{}})
}

func (s session) Qualified(server, tool string) string {
	return callability.Adapter{}.Qualified(server, tool)
}

func (s session) Called() int { return int(s.called.Load()) }

func connected(t *testing.T, serving *server.MCPServer, called *atomic.Int64) session {
	t.Helper()
	found, err := client.NewInProcessClient(serving)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = found.Close() })
	if err := found.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := found.Initialize(t.Context(), mcp.InitializeRequest{}); err != nil {
		t.Fatal(err)
	}
	return session{found, called}
}

// recorded is a tool as the storage of the proxy has it.
func recorded(server string, tool callabilitytest.Tool) toolRecord {
	found := toolRecord{
		Server: server, Name: tool.Name, Description: tool.Description, Schema: json.RawMessage(`{"type":"object"}`),
		Denied: tool.Facts.ConfigDenied == callability.True,
	}
	readable, record := tool.Facts.Approval.Known()
	if found.Damaged = !readable; record {
		disabled, status := tool.Facts.Approval.Fields()
		found.Disabled = disabled == callability.True
		found.Approval = map[callability.ApprovalStatus]string{
			callability.ApprovalApproved: "approved", callability.ApprovalPending: "pending", callability.ApprovalChanged: "changed",
		}[status]
	}
	return found
}

func start(t *testing.T, inventory callabilitytest.Inventory) (*guard, session) {
	t.Helper()
	stored, called := &store{}, new(atomic.Int64)
	for _, server := range inventory.Servers {
		stored.putServer(server.Name, serverRecord{server.Facts.Enabled == callability.True, server.Facts.Quarantined == callability.True})
		for _, tool := range server.Tools {
			stored.putTool(recorded(server.Name, tool))
		}
	}
	g := &guard{store: stored, policy: func() *callability.Policy { return inventory.Policy }, scope: inventory.Scope}
	if err := g.sync(); err != nil {
		t.Fatal(err)
	}
	return g, connected(t, newServer(g, func(context.Context, string, string, any) (*mcp.CallToolResult, error) {
		called.Add(1)
		return mcp.NewToolResultText("done"), nil
	}), called)
}

func TestTheProxyKeepsEveryLaw(t *testing.T) {
	callabilitytest.Run(t, shipped.Policy(), func(t *testing.T, inventory callabilitytest.Inventory) callabilitytest.Proxy {
		_, found := start(t, inventory)
		return found
	})
}

func TestTheDirectListingHasTheCallableToolsAlone(t *testing.T) {
	open := callability.ToolFacts{ConfigDenied: callability.False, Approval: callability.NoRecord()}
	denied := callability.ToolFacts{ConfigDenied: callability.True, Approval: callability.NoRecord()}
	_, found := start(t, callabilitytest.Inventory{
		Policy: shipped.Policy(), Scope: callability.AllServers(),
		Servers: []callabilitytest.Server{{
			Name: "git", Facts: callability.ServerFacts{Enabled: callability.True},
			Tools: []callabilitytest.Tool{{Name: "log", Facts: open}, {Name: "reset", Facts: denied}},
		}},
	})
	listed, err := found.client.ListTools(t.Context(), mcp.ListToolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range listed.Tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"call_tool", "git:log", "retrieve_tools"}) {
		t.Errorf("found %q", names)
	}
	// The library refuses what its filter hides; by the tool that calls others, the agent reads why.
	if text, err := found.tool(t.Context(), "git:reset", nil); err == nil || found.Called() != 0 {
		t.Errorf("found %s and %d calls", text, found.Called())
	}
	if text, err := found.Call(t.Context(), "git:reset"); err != nil || !strings.Contains(string(text), "disabled_by_config") {
		t.Errorf("found %s, %v", text, err)
	}
}

// TestAGatewayKeepsEveryLaw is about a proxy that has no tools of its own.
func TestAGatewayKeepsEveryLaw(t *testing.T) {
	callabilitytest.Run(t, shipped.Policy(), func(t *testing.T, wanted callabilitytest.Inventory) callabilitytest.Proxy {
		inventory, called := &callability.Inventory{}, new(atomic.Int64)
		for _, each := range wanted.Servers {
			if err := inventory.PutServer(each.Name, each.Facts); err != nil {
				t.Fatal(err)
			}
			for _, tool := range each.Tools {
				entry, err := mark3labs.Entry(mcp.NewTool(tool.Name, mcp.WithDescription(tool.Description)), tool.Facts)
				if err != nil {
					t.Fatal(err)
				}
				if err := inventory.Put(each.Name, entry); err != nil {
					t.Fatal(err)
				}
			}
		}
		served := mark3labs.Gateway{
			Gateway: gateway.Gateway{Inventory: inventory, Policy: func() *callability.Policy { return wanted.Policy }},
			Caller: func(context.Context, mcp.CallToolRequest) mark3labs.Caller {
				return mark3labs.Caller{Agent: callability.NewAgent(callability.AgentFacts{Labels: callability.NoLabels()}), Scope: wanted.Scope}
			},
			Call: func(context.Context, mcp.CallToolRequest, gateway.Call) (*mcp.CallToolResult, error) {
				called.Add(1)
				return mcp.NewToolResultText("done"), nil
			},
		}
		serving := server.NewMCPServer("gateway", "1")
		served.AddTools(serving)
		return connected(t, serving, called)
	})
}

func TestAToolThatIsSwitchedOffHasNoOtherLock(t *testing.T) {
	stored := &store{}
	stored.putServer("notes", serverRecord{Enabled: true})
	stored.putTool(toolRecord{Server: "notes", Name: "read", Disabled: true})
	guarded := newGuard(stored)
	if err := guarded.sync(); err != nil {
		t.Fatal(err)
	}
	found := guarded.inventory.Decide(t.Context(), guarded.policy(), agent, guarded.scope, "notes:read")
	if status, remaining := found.Verdict.Status(), found.Verdict.Remaining(); status != callability.StatusDisabledByUser || len(remaining.Steps)+len(remaining.FindOut) > 0 {
		t.Errorf("found %s and %+v", status, remaining)
	}
}
