package callabilitytest_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/callabilitytest"
	"github.com/callability/callability/clients/go/gateway"
	"github.com/callability/callability/clients/go/shipped"
)

// A proxy on the package gateway: a call that it lets through reaches no server, and is counted.
type proxy struct {
	served *gateway.Gateway
	caller gateway.Caller
	called atomic.Int64
}

func (p *proxy) Discover(ctx context.Context, arguments json.RawMessage) (json.RawMessage, error) {
	return p.served.Discover(ctx, p.caller, arguments).JSON(), nil
}

func (p *proxy) Call(ctx context.Context, name string) (json.RawMessage, error) {
	arguments, err := json.Marshal(map[string]string{"name": name})
	if err != nil {
		return nil, err
	}
	if _, result := p.served.Decide(ctx, p.caller, arguments); result != nil {
		return result.JSON(), nil
	}
	p.called.Add(1)
	return callability.Result{Text: "done"}.JSON(), nil
}

func (p *proxy) Qualified(server, tool string) string {
	return p.served.Inventory.Adapter.Qualified(server, tool)
}

func (p *proxy) Called() int { return int(p.called.Load()) }

// start starts a proxy with an inventory.
func start(t *testing.T, wanted callabilitytest.Inventory) callabilitytest.Proxy {
	inventory := &callability.Inventory{}
	for _, server := range wanted.Servers {
		if err := inventory.PutServer(server.Name, server.Facts); err != nil {
			t.Fatal(err)
		}
		for _, tool := range server.Tools {
			text := callability.ToolText{Description: &tool.Description}
			if err := inventory.Put(server.Name, callability.ToolEntry{Name: tool.Name, Facts: tool.Facts, Text: text}); err != nil {
				t.Fatal(err)
			}
		}
	}
	agent := callability.NewAgent(callability.AgentFacts{Labels: callability.NoLabels()})
	return &proxy{
		served: &gateway.Gateway{Inventory: inventory, Policy: func() *callability.Policy { return wanted.Policy }},
		caller: gateway.Caller{Agent: agent, Scope: wanted.Scope},
	}
}

// In a test of yours, Run starts the proxy once or twice for each law.
func ExampleRun() {
	// In your package, this is func TestConformance(t *testing.T).
	conformance := func(t *testing.T) { callabilitytest.Run(t, shipped.Policy(), start) }
	_ = conformance
}
