package mcpgo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/gateway"
	"github.com/callability/callability/clients/go/mcpgo"
	"github.com/callability/callability/clients/go/shipped"
)

var implementation = &mcp.Implementation{Name: "proxy", Version: "1"}

// inventory has one tool, which is callable.
func inventory(t *testing.T) *callability.Inventory {
	t.Helper()
	found := &callability.Inventory{}
	if err := found.PutServer("git", callability.ServerFacts{Enabled: callability.True, Quarantined: callability.False}); err != nil {
		t.Fatal(err)
	}
	facts := callability.ToolFacts{ConfigDenied: callability.False, Approval: callability.NoRecord()}
	if err := found.Put("git", callability.ToolEntry{Name: "log", Facts: facts}); err != nil {
		t.Fatal(err)
	}
	return found
}

func connected(t *testing.T, server *mcp.Server) *mcp.ClientSession {
	t.Helper()
	ours, theirs := mcp.NewInMemoryTransports()
	serving, err := server.Connect(t.Context(), ours, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = serving.Close() })
	session, err := mcp.NewClient(implementation, nil).Connect(t.Context(), theirs, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

func TestACallHasTheRequestOfTheAgentOnAServerOfTheProxy(t *testing.T) {
	var requested *mcp.CallToolRequest
	var called gateway.Call
	served := mcpgo.Gateway{
		Gateway: gateway.Gateway{Inventory: inventory(t), Policy: shipped.Policy},
		Caller: func(context.Context, *mcp.CallToolRequest) mcpgo.Caller {
			return mcpgo.Caller{Scope: callability.AllServers()}
		},
		Call: func(_ context.Context, request *mcp.CallToolRequest, call gateway.Call) (*mcp.CallToolResult, error) {
			requested, called = request, call
			return &mcp.CallToolResult{}, nil
		},
	}
	server := mcp.NewServer(implementation, &mcp.ServerOptions{Instructions: "Ask first."})
	served.AddTools(server)
	session := connected(t, server)
	if found := session.InitializeResult().Instructions; found != "Ask first." {
		t.Errorf("found the instructions %q, which are not those of the server", found)
	}
	params := &mcp.CallToolParams{
		Meta: mcp.Meta{"trace": "1"}, Name: gateway.CallTool,
		Arguments: json.RawMessage(`{"name": "git:log", "arguments": {"count": 2}}`),
	}
	params.SetProgressToken("token")
	if result, err := session.CallTool(t.Context(), params); err != nil || result.IsError {
		t.Fatalf("found %+v, %v", result, err)
	}
	if called.Server != "git" || called.Tool != "log" || string(called.Arguments) != `{"count":2}` {
		t.Errorf("found the call %+v of %s", called, called.Arguments)
	}
	if requested.Session == nil || requested.Params.GetProgressToken() != "token" || requested.Params.Meta["trace"] != "1" {
		t.Errorf("found the request %+v", requested)
	}
}

func TestAFieldThatIsNotSetIsNamed(t *testing.T) {
	caller := func(context.Context, *mcp.CallToolRequest) mcpgo.Caller { return mcpgo.Caller{} }
	call := func(context.Context, *mcp.CallToolRequest, gateway.Call) (*mcp.CallToolResult, error) {
		return nil, nil
	}
	for field, served := range map[string]*mcpgo.Gateway{
		"Inventory": {Gateway: gateway.Gateway{Policy: shipped.Policy}, Caller: caller, Call: call},
		"Policy":    {Gateway: gateway.Gateway{Inventory: inventory(t)}, Caller: caller, Call: call},
		"Caller":    {Gateway: gateway.Gateway{Inventory: inventory(t), Policy: shipped.Policy}, Call: call},
		"Call":      {Gateway: gateway.Gateway{Inventory: inventory(t), Policy: shipped.Policy}, Caller: caller},
	} {
		func() {
			defer func() {
				if said := fmt.Sprint(recover()); !strings.Contains(said, ": the field "+field+" of the Gateway is not set") {
					t.Errorf("%s: found %s", field, said)
				}
			}()
			served.AddTools(mcp.NewServer(implementation, nil))
		}()
	}
}
