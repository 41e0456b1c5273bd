package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/gateway"
	"github.com/callability/callability/clients/go/search"
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
		approved := callability.ToolFacts{ConfigDenied: callability.False, Approval: callability.NoRecord()}
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
		if names := found(t, asked, query); !slices.Equal(names, wanted) {
			t.Errorf("%s: found %v, wanted %v", query, names, wanted)
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

func TestAnArgumentIsReadByItsExactNameAlone(t *testing.T) {
	served := &gateway.Gateway{Inventory: inventory(t), Policy: shipped.Policy}
	caller := gateway.Caller{Scope: callability.AllServers()}
	call, result := served.Decide(t.Context(), caller, []byte(`{"name": "s:move", "NAME": "s:run", "Arguments": {"a": 1}}`))
	if result != nil || call.Tool != "move" || call.Arguments != nil {
		t.Errorf("found %+v and %v", call, result)
	}
}

// found are the names of the tools that an agent finds.
func found(t *testing.T, served *gateway.Gateway, query string) []string {
	t.Helper()
	arguments, _ := json.Marshal(map[string]string{"query": query})
	result := served.Discover(t.Context(), gateway.Caller{Scope: callability.AllServers()}, arguments)
	var answer struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal([]byte(result.Text), &answer); err != nil {
		t.Fatal(err, result.Text)
	}
	names := make([]string, len(answer.Tools))
	for place, tool := range answer.Tools {
		names[place] = tool.Name
	}
	return names
}

func TestASearchOfTheProxySeesWhatAnIndexSees(t *testing.T) {
	var seen []search.Document
	served := &gateway.Gateway{Inventory: inventory(t), Policy: shipped.Policy}
	served.Search = func(_ context.Context, query string, tools []search.Document) ([]string, error) {
		if seen = append(seen, tools...); query == "crop" && len(tools) > 0 {
			return []string{"s:run"}, nil
		}
		return nil, nil
	}
	if names := found(t, served, "crop"); !slices.Equal(names, []string{"s:run"}) {
		t.Errorf("found %v", names)
	}
	place := slices.IndexFunc(seen, func(each search.Document) bool { return each.ID == "s:run" })
	if place < 0 || seen[place].Server != "s" || seen[place].Name != "run" || !slices.Contains(seen[place].ParameterTexts, "What to crop.") {
		t.Errorf("found %+v", seen)
	}
}

func TestASearchThatFailsIsLoggedAndTheIndexAnswers(t *testing.T) {
	var lines bytes.Buffer
	served := &gateway.Gateway{Inventory: inventory(t), Policy: shipped.Policy}
	served.Inventory.Hooks.Logger = slog.New(slog.NewTextHandler(&lines, nil))
	served.Search = func(context.Context, string, []search.Document) ([]string, error) {
		return nil, errors.New("no index yet")
	}
	if names := found(t, served, "sharpen"); !slices.Equal(names, []string{"s:run"}) {
		t.Errorf("found %v", names)
	}
	if !strings.Contains(lines.String(), `level=WARN msg=search_failed why="no index yet`) {
		t.Errorf("found %s", lines.String())
	}
}
