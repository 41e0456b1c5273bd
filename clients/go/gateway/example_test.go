package gateway_test

import (
	"context"
	"fmt"
	"log"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/gateway"
	"github.com/callability/callability/clients/go/shipped"
)

// A gateway decides a call by the arguments that the agent sent: the proxy makes the call, or sends the result.
func ExampleGateway() {
	inventory := &callability.Inventory{}
	if err := inventory.PutServer("git", callability.ServerFacts{
		Enabled: callability.True, Quarantined: callability.False, Labels: callability.NoLabels(),
	}); err != nil {
		log.Fatal(err)
	}
	for name, denied := range map[string]callability.Bool{"log": callability.False, "reset": callability.True} {
		facts := callability.ToolFacts{ConfigDenied: denied, Approval: callability.NoRecord(), Labels: callability.NoLabels()}
		if err := inventory.Put("git", callability.ToolEntry{Name: name, Facts: facts}); err != nil {
			log.Fatal(err)
		}
	}
	served := gateway.Gateway{Inventory: inventory, Policy: shipped.Policy}
	caller := gateway.Caller{Agent: callability.NewAgent(callability.AgentFacts{}), Scope: callability.AllServers()}
	for _, arguments := range []string{`{"name": "git:log", "arguments": {"count": 2}}`, `{"name": "git:reset"}`} {
		call, result := served.Decide(context.Background(), caller, []byte(arguments))
		if result != nil {
			fmt.Println(string(result.StructuredContent))
			continue
		}
		fmt.Println("call", call.Tool, "of", call.Server, "with", string(call.Arguments))
	}
	fmt.Println(served.Servers(context.Background(), caller).Text)
	// Output:
	// call log of git with {"count": 2}
	// {"status":"disabled_by_config","server":"git","tool":"reset","lifted_by":"operator","retry":"never"}
	// {"servers":[{"name":"git","tools":{"callable":1,"disabled_by_config":1}}]}
}
