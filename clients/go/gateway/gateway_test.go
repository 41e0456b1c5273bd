package gateway_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/gateway"
	"github.com/callability/callability/clients/go/shipped"
)

// inventory has callable tools: one whose parameters say what it does, deep in its schema, and some whose names do.
func inventory(t *testing.T) *callability.Inventory {
	t.Helper()
	inventory := &callability.Inventory{}
	facts := callability.ServerFacts{Enabled: callability.True, Quarantined: callability.False, Labels: callability.NoLabels()}
	if err := inventory.PutServer("s", facts); err != nil {
		t.Fatal(err)
	}
	described := "Works on a file."
	for name, schema := range map[string]string{
		"run": `{"properties": {"jobs": {"type": "array", "items": {"properties": {"picture": {"description": "What to crop."}}}},
			"odd": 1, "description": {"description": 7, "properties": [], "items": {"description": "How to sharpen."}}}}`,
		"delete_file": `{}`,
		"read_file":   `{}`,
		"move":        `{}`,
	} {
		approved := callability.ToolFacts{ConfigDenied: callability.False, Approval: callability.NoRecord}
		text := callability.ToolText{Description: &described, InputSchema: json.RawMessage(schema)}
		if err := inventory.Put("s", callability.ToolEntry{Name: name, Facts: approved, Text: text}); err != nil {
			t.Fatal(err)
		}
	}
	return inventory
}

func TestDescriptionsOfParametersFindTools(t *testing.T) {
	asked := &gateway.Gateway{Inventory: inventory(t), Policy: shipped.Policy}
	for query, wanted := range map[string][]string{
		"cropping": {"s:run"},
		"sharpen":  {"s:run"},
		// Without the cut, the two others would follow: they share a word.
		"delete_file": {"s:delete_file"},
	} {
		arguments, _ := json.Marshal(map[string]string{"query": query})
		result := asked.Discover(t.Context(), gateway.Caller{Scope: callability.AllServers()}, arguments)
		var answer struct{ Tools []struct{ Name string } }
		if err := json.Unmarshal([]byte(result.Text), &answer); err != nil {
			t.Fatal(err, result.Text)
		}
		if len(answer.Tools) != len(wanted) || answer.Tools[0].Name != wanted[0] {
			t.Errorf("%s: found %v, wanted %v", query, answer.Tools, wanted)
		}
	}
}

func TestTheContextOfACallReachesTheRecordOfItsDecision(t *testing.T) {
	type key struct{}
	served := &gateway.Gateway{Inventory: inventory(t), Policy: shipped.Policy}
	var traces []any
	served.Inventory.Decided = func(ctx context.Context, _ callability.DecidedCall) { traces = append(traces, ctx.Value(key{})) }
	ctx := context.WithValue(t.Context(), key{}, "trace")
	served.Decide(ctx, gateway.Caller{Scope: callability.AllServers()}, []byte(`{"name": "s:move"}`))
	if len(traces) != 1 || traces[0] != "trace" {
		t.Errorf("found %v", traces)
	}
}
