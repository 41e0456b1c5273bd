package callability_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/internal/contractjson"
)

type callVector struct {
	Name, Inventory, Call string
	// Scope is nil for every server.
	Scope  []string
	Result string
	Called []string
}

type inventoryJSON struct {
	Separator string
	Servers   map[string]struct {
		Facts contractjson.ServerFacts
		Tools map[string]struct {
			Facts   contractjson.ToolFacts
			Refusal string
		}
	}
}

func (j inventoryJSON) inventory(t *testing.T) *callability.Inventory {
	t.Helper()
	found := &callability.Inventory{Adapter: callability.Adapter{Separator: j.Separator}}
	for name, server := range j.Servers {
		_, handle := (&contractjson.Request{Server: name, ServerFacts: server.Facts}).Handles()
		if err := found.PutServer(name, handle.Server().Facts()); err != nil {
			t.Fatal(err)
		}
		for tool, each := range server.Tools {
			_, handle := (&contractjson.Request{Server: name, Tool: tool, ToolFacts: each.Facts}).Handles()
			// Of two tools with the same qualified name, the second one is reported.
			if err := found.Put(name, callability.ToolEntry{Name: tool, Facts: handle.Facts(), Refusal: each.Refusal}); err != nil {
				t.Log(err)
			}
		}
	}
	return found
}

// TestEveryCallHasTheResultOfItsVector replays the calls by a qualified name.
func TestEveryCallHasTheResultOfItsVector(t *testing.T) {
	text, err := os.ReadFile(vectors(t, "decide.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Inventories map[string]inventoryJSON
		Vectors     []callVector
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	policy := bundled(t, "shipped.bundle")
	for _, each := range file.Vectors {
		t.Run(each.Name, func(t *testing.T) {
			scope := callability.AllServers()
			if each.Scope != nil {
				scope = callability.Servers(each.Scope...)
			}
			found := file.Inventories[each.Inventory].inventory(t).Decide(t.Context(), policy, nil, scope, each.Call)
			result, called := "", []string(nil)
			if found.Rejection != nil {
				result = string(found.Rejection.JSON())
			} else {
				called = []string{found.Tool.Server().Name(), found.Tool.Name()}
			}
			if result != each.Result || !slices.Equal(called, each.Called) {
				t.Errorf("\nfound  %s %v\nwanted %s %v", result, called, each.Result, each.Called)
			}
		})
	}
	if len(file.Vectors) < 25 {
		t.Errorf("found %d vectors, wanted at least 25", len(file.Vectors))
	}
}
