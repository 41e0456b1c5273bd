package mark3labs_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/gateway"
	"github.com/callability/callability/clients/go/mark3labs"
	"github.com/callability/callability/clients/go/shipped"
)

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

func TestACallHasTheRequestOfTheAgent(t *testing.T) {
	var requested mcp.CallToolRequest
	var called gateway.Call
	served := mark3labs.Gateway{
		Gateway: gateway.Gateway{Inventory: inventory(t), Policy: shipped.Policy},
		Caller: func(context.Context, mcp.CallToolRequest) mark3labs.Caller {
			return mark3labs.Caller{Scope: callability.AllServers()}
		},
		Call: func(_ context.Context, request mcp.CallToolRequest, call gateway.Call) (*mcp.CallToolResult, error) {
			requested, called = request, call
			return mcp.NewToolResultText("done"), nil
		},
	}
	serving := server.NewMCPServer("proxy", "1")
	served.AddTools(serving)
	agent, err := client.NewInProcessClient(serving)
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	if _, err := agent.Initialize(t.Context(), mcp.InitializeRequest{}); err != nil {
		t.Fatal(err)
	}
	result, err := agent.CallTool(t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{
		Name: gateway.CallTool, Arguments: map[string]any{"name": "git:log", "arguments": map[string]any{"count": 2}},
		Meta: &mcp.Meta{ProgressToken: "token"},
	}})
	if err != nil || result.IsError {
		t.Fatalf("found %+v, %v", result, err)
	}
	if called.Server != "git" || called.Tool != "log" || string(called.Arguments) != `{"count":2}` {
		t.Errorf("found the call %+v of %s", called, called.Arguments)
	}
	if requested.Params.Meta == nil || requested.Params.Meta.ProgressToken != "token" {
		t.Errorf("found the request %+v", requested)
	}
}

func TestAFieldThatIsNotSetIsNamed(t *testing.T) {
	caller := func(context.Context, mcp.CallToolRequest) mark3labs.Caller { return mark3labs.Caller{} }
	call := func(context.Context, mcp.CallToolRequest, gateway.Call) (*mcp.CallToolResult, error) { return nil, nil }
	for field, served := range map[string]*mark3labs.Gateway{
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
			served.AddTools(server.NewMCPServer("proxy", "1"))
		}()
	}
}
