package policyclient

import (
	"context"
	"fmt"

	"github.com/callability/callability/clients/go/callability"
)

// A Guard is a Client that decides by a policy about what an inventory holds.
type Guard struct {
	store     *callability.PolicyStore
	inventory *callability.Inventory
	agent     *callability.Agent
}

var _ Client = (*Guard)(nil)

// neverSent are the facts that this gateway does not have. It has no approvals either, which is callability.NoRecord().
var neverSent = []string{"annotations", "server.label", "tool.label", "agent"}

// New refuses a policy that reads what the gateway never sends: every rule that does so would hold tools back.
func New(store *callability.PolicyStore, inventory *callability.Inventory) (*Guard, error) {
	for _, fact := range neverSent {
		if store.Load().Reads(fact) {
			return nil, fmt.Errorf("policyclient: the policy reads `%s`, which this gateway does not know; remove the rule", fact)
		}
	}
	inventory.Adapter.NoDiscovery = true
	return &Guard{store, inventory, callability.NewAgent(callability.AgentFacts{})}, nil
}

// Evaluate decides about a tool, or about a server if the request names no tool.
func (g *Guard) Evaluate(ctx context.Context, request Request) (Decision, error) {
	policy, adapter := g.store.Load(), g.inventory.Adapter
	if request.Tool != "" {
		found := g.inventory.Decide(ctx, policy, g.agent, callability.AllServers(), adapter.Qualified(request.Server, request.Tool))
		if !found.Callable() {
			return Decision{Reason: found.Rejection.Text}, nil
		}
		return Decision{Allowed: true}, nil
	}
	verdict := policy.DecideServer(g.agent, g.inventory.Server(request.Server))
	if verdict.Callable() {
		return Decision{Allowed: true}, nil
	}
	judgement := adapter.Judgement([]callability.Item{{Server: request.Server, Answer: verdict.Answer()}})
	for _, lock := range judgement.Locks() {
		return Decision{Reason: lock.Status.String() + ": " + lock.Text}, nil
	}
	return Decision{Reason: "no policy is in effect"}, nil
}
