package mcpgo_test

import (
	"context"
	"fmt"
	"log"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/gateway"
	"github.com/callability/callability/clients/go/mcpgo"
	"github.com/callability/callability/clients/go/shipped"
)

// A server of the proxy gets the three tools. A call that the policy lets through reaches Call.
func ExampleGateway() {
	ctx, inventory := context.Background(), &callability.Inventory{}
	if err := inventory.PutServer("git", callability.ServerFacts{
		Enabled: callability.True, Quarantined: callability.False, Labels: callability.NoLabels(),
	}); err != nil {
		log.Fatal(err)
	}
	for name, denied := range map[string]callability.Bool{"log": callability.False, "reset": callability.True} {
		listed := &mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}
		entry, err := mcpgo.Entry(listed, callability.ToolFacts{
			ConfigDenied: denied, Approval: callability.NoRecord(), Labels: callability.NoLabels(),
		})
		if err != nil {
			log.Fatal(err)
		}
		if err := inventory.Put("git", entry); err != nil {
			log.Fatal(err)
		}
	}
	user := callability.NewAgent(callability.AgentFacts{})
	served := mcpgo.Gateway{
		Gateway: gateway.Gateway{Inventory: inventory, Policy: shipped.Policy},
		Caller: func(context.Context, *mcp.CallToolRequest) mcpgo.Caller {
			return mcpgo.Caller{Agent: user, Scope: callability.AllServers()}
		},
		Call: func(_ context.Context, _ *mcp.CallToolRequest, call gateway.Call) (*mcp.CallToolResult, error) {
			text := "called " + call.Tool + " of " + call.Server
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
		},
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "proxy", Version: "1"}, nil)
	served.AddTools(server)

	ours, theirs := mcp.NewInMemoryTransports()
	if _, err := server.Connect(ctx, ours, nil); err != nil {
		log.Fatal(err)
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil).Connect(ctx, theirs, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	for _, name := range []string{"git:log", "git:reset"} {
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: gateway.CallTool, Arguments: map[string]any{"name": name}})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.IsError, result.Content[0].(*mcp.TextContent).Text)
	}
	// Output:
	// false called log of git
	// true Not called: disabled_by_config, by policy. The config denies tool "reset" of server "git". The operator must edit the server's tool lists in the config. Only the operator can lift this. Do not retry until then. See `retrieve_tools` with `include_disabled: true`.
}
