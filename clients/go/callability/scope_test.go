package callability_test

import (
	"maps"
	"testing"

	"github.com/callability/callability/clients/go/callability"
)

func TestScopesAreComparedAndSayWhatTheyAre(t *testing.T) {
	for said, scope := range map[string]callability.Scope{
		"all servers":      callability.AllServers(),
		"no server":        callability.Servers(),
		`"*"`:              callability.Servers("*"),
		`"files", "git"`:   callability.Servers("git", "files", "git"),
		`"files\", \"git"`: callability.Servers(`files", "git`),
	} {
		if found := scope.String(); found != said {
			t.Errorf("found %s, wanted %s", found, said)
		}
		for other, each := range map[string]callability.Scope{
			"all servers": callability.AllServers(), "no server": {}, `"*"`: callability.Servers("*"),
			`"files", "git"`: callability.Servers("files", "git"),
		} {
			if scope.Equal(each) != (said == other) {
				t.Errorf("%s and %s: found equal %t", scope, each, scope.Equal(each))
			}
		}
	}
}

func TestAllHasEveryToolOfAJudgement(t *testing.T) {
	var inventory callability.Inventory
	inventory.PutServer("git", openServer)
	inventory.Put("git", entry("log", openTool))
	inventory.Put("git", entry("push", callability.ToolFacts{}))
	judgement, err := inventory.Judge(t.Context(), bundled(t, "shipped.bundle"), nil, callability.AllServers())
	if err != nil {
		t.Fatal(err)
	}
	wanted := map[string]callability.Status{"git:log": callability.StatusCallable, "git:push": callability.StatusDisabledUnknown}
	if found := maps.Collect(judgement.All()); !maps.Equal(found, wanted) || judgement.Searchable("git:push") {
		t.Errorf("found %v, wanted %v, of which the second is withheld", found, wanted)
	}
	for name := range judgement.All() {
		if name != "git:log" {
			t.Errorf("found %s first", name)
		}
		break
	}
}
