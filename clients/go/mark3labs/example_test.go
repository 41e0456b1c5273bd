package mark3labs_test

import (
	"context"
	"fmt"
	"log"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/gateway"
	"github.com/callability/callability/clients/go/mark3labs"
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
		entry, err := mark3labs.Entry(mcp.NewTool(name), callability.ToolFacts{
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
	served := mark3labs.Gateway{
		Gateway: gateway.Gateway{Inventory: inventory, Policy: shipped.Policy},
		Caller: func(context.Context, mcp.CallToolRequest) mark3labs.Caller {
			return mark3labs.Caller{Agent: user, Scope: callability.AllServers()}
		},
		Call: func(_ context.Context, _ mcp.CallToolRequest, call gateway.Call) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText("called " + call.Tool + " of " + call.Server), nil
		},
	}
	serving := server.NewMCPServer("proxy", "1")
	served.AddTools(serving)

	session, err := client.NewInProcessClient(serving)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	if _, err := session.Initialize(ctx, mcp.InitializeRequest{}); err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"git:log", "git:reset"} {
		result, err := session.CallTool(ctx, mcp.CallToolRequest{Params: mcp.CallToolParams{
			Name: gateway.CallTool, Arguments: map[string]any{"name": name},
		}})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.IsError, mcp.GetTextFromContent(result.Content[0]))
	}
	// Output:
	// false called log of git
	// true Not called: disabled_by_config, by policy. The config denies tool "reset" of server "git". The operator must edit the server's tool lists in the config. Only the operator can lift this. Do not retry until then. See `retrieve_tools` with `include_disabled: true`.
}
