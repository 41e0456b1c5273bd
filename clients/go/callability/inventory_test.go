package callability_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/callability/callability/clients/go/callability"
)

func text(description string) callability.ToolText {
	return callability.ToolText{Description: &description, InputSchema: []byte(`{"type": "object"}`)}
}

func entry(name string, facts callability.ToolFacts) callability.ToolEntry {
	return callability.ToolEntry{Name: name, Facts: facts, Text: text("Does " + name + ".")}
}

var (
	openServer = callability.ServerFacts{Enabled: callability.True, Quarantined: callability.False, Labels: callability.NoLabels()}
	openTool   = callability.ToolFacts{ConfigDenied: callability.False, Approval: callability.NoRecord,
		Annotations: &callability.Annotations{}, Labels: callability.NoLabels()}
	deniedTool = callability.ToolFacts{ConfigDenied: callability.True, Approval: callability.NoRecord,
		Annotations: &callability.Annotations{}, Labels: callability.NoLabels()}
)

func discovered(t *testing.T, inventory *callability.Inventory, scope callability.Scope, locked bool) string {
	t.Helper()
	judgement, err := inventory.Judge(bundled(t, "shipped.bundle"), nil, scope)
	if err != nil {
		t.Fatal(err)
	}
	result, err := judgement.Discovery(callability.Discovery{
		Query: "git status", Found: judgement.CallableNames(), FoundLocked: judgement.LockedNames(), IncludeDisabled: locked,
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(result.JSON())
}

func TestWithoutTheFlagLockedToolsChangeNoByteOfAnAnswer(t *testing.T) {
	var inventory callability.Inventory
	inventory.PutServer("git", openServer)
	inventory.Put("git", entry("git_status", openTool))
	before := discovered(t, &inventory, callability.AllServers(), false)
	inventory.Put("git", entry("git_reset", deniedTool))
	inventory.PutServer("off", callability.ServerFacts{Enabled: callability.False, Quarantined: callability.False})
	inventory.Put("off", entry("git_status_2", openTool))
	if after := discovered(t, &inventory, callability.AllServers(), false); after != before {
		t.Errorf("found %s, wanted %s", after, before)
	}
	if with := discovered(t, &inventory, callability.AllServers(), true); with == before {
		t.Errorf("the locked tools are not shown: %s", with)
	}
}

func TestAServerOutOfScopeDoesNotExist(t *testing.T) {
	var inventory callability.Inventory
	inventory.PutServer("git", openServer)
	inventory.Put("git", entry("git_status", openTool))
	before := discovered(t, &inventory, callability.Servers("git"), true)
	inventory.PutServer("secret", openServer)
	inventory.Replace("secret", []callability.ToolEntry{entry("git_status", deniedTool), entry("git_reset", openTool)})
	if after := discovered(t, &inventory, callability.Servers("git"), true); after != before {
		t.Errorf("found %s, wanted %s", after, before)
	}
	if nothing := discovered(t, &inventory, callability.Scope{}, true); nothing == before {
		t.Error("an empty scope shows what a scope shows")
	}
}

func TestAnInventoryThatChangesIsJudgedAgain(t *testing.T) {
	var inventory callability.Inventory
	policy := bundled(t, "shipped.bundle")
	status := func() callability.Status {
		judgement, err := inventory.Judge(policy, nil, callability.AllServers())
		if err != nil {
			t.Fatal(err)
		}
		return judgement.Status("git:git_status")
	}
	wanted := func(want callability.Status) {
		t.Helper()
		if found := status(); found != want {
			t.Errorf("found %s, wanted %s", found, want)
		}
	}
	wanted(callability.StatusUnspecified)
	inventory.Put("git", entry("git_status", openTool))
	wanted(callability.DisabledUnknown)
	inventory.PutServer("git", openServer)
	wanted(callability.Callable)
	inventory.Replace("git", []callability.ToolEntry{entry("git_status", deniedTool)})
	wanted(callability.DisabledByConfig)
	inventory.Remove("git", "git_status")
	wanted(callability.StatusUnspecified)
	inventory.Put("git", entry("git_status", openTool))
	inventory.RemoveServer("git")
	wanted(callability.StatusUnspecified)
	if _, err := inventory.Judge(nil, nil, callability.AllServers()); !errors.Is(err, callability.ErrNoPolicy) {
		t.Errorf("found %v, wanted %v", err, callability.ErrNoPolicy)
	}
}

func TestAnItemWithAnErrorCountsAsUnknown(t *testing.T) {
	var inventory callability.Inventory
	inventory.PutServer("git", openServer)
	inventory.Put("git", entry("git_status", openTool))
	inventory.Put("git", entry("", openTool))
	judgement, err := inventory.Judge(bundled(t, "shipped.bundle"), nil, callability.AllServers())
	if err != nil {
		t.Fatal(err)
	}
	if found, wanted := string(judgement.Counts()), `{"git":{"callable":1,"disabled_unknown":1}}`; found != wanted {
		t.Errorf("found %s, wanted %s", found, wanted)
	}
}

func TestTextsOfAJudgementAreThoseThatWereJudged(t *testing.T) {
	pending := openTool
	pending.Approval = callability.Approval{}
	var inventory callability.Inventory
	inventory.PutServer("git", openServer)
	approved := entry("git_status", openTool)
	approved.Text = text("Shows the status.")
	inventory.Put("git", approved)
	policy := bundled(t, "shipped.bundle")
	judgement, err := inventory.Judge(policy, nil, callability.AllServers())
	if err != nil {
		t.Fatal(err)
	}
	poisoned := entry("git_status", pending)
	poisoned.Text = text("Poisoned.")
	inventory.Put("git", poisoned)
	result, err := judgement.Discovery(callability.Discovery{Query: "git", Found: judgement.CallableNames()})
	if err != nil || !strings.Contains(result.Text, "Shows the status.") || strings.Contains(result.Text, "Poisoned") {
		t.Errorf("found %s and %v", result.Text, err)
	}
	if found := discovered(t, &inventory, callability.AllServers(), true); strings.Contains(found, "Poisoned") {
		t.Errorf("found %s", found)
	}
}

func TestTheTextOfAHiddenToolWithTheSameNameIsNotShown(t *testing.T) {
	inventory := callability.Inventory{Adapter: callability.Adapter{Separator: "_"}}
	for server, tool := range map[string]string{"files": "x_read", "files_x": "read"} {
		listed := entry(tool, openTool)
		listed.Text = text("Of " + server + ".")
		inventory.PutServer(server, openServer)
		inventory.Put(server, listed)
	}
	judgement, err := inventory.Judge(bundled(t, "shipped.bundle"), nil, callability.Servers("files_x"))
	if err != nil {
		t.Fatal(err)
	}
	if found, known := judgement.Text("files_x_read"); !known || *found.Description != "Of files_x." {
		t.Errorf("found %v, %v", found, known)
	}
	if found, known := inventory.Text("files_x_read"); known {
		t.Errorf("found %v", found)
	}
}

func TestScopesWithAnyByteInANameAreDifferentScopes(t *testing.T) {
	var inventory callability.Inventory
	for _, server := range []string{"a", "b", "a\x00b"} {
		inventory.PutServer(server, openServer)
		inventory.Put(server, entry("read", openTool))
	}
	policy := bundled(t, "shipped.bundle")
	for _, names := range [][]string{{"a\x00b"}, {"a", "b"}, {"1:a"}, {"1:b", "a"}, {"a"}, {}} {
		scope := callability.Servers(names...)
		judgement, err := inventory.Judge(policy, nil, scope)
		if err != nil {
			t.Fatal(err)
		}
		if found, wanted := judgement.CallableNames(), len(inventory.Servers(scope)); len(found) != wanted {
			t.Errorf("scope %q: found %q", names, found)
		}
	}
}

func TestALockedToolWithoutATextIsFoundByItsName(t *testing.T) {
	var inventory callability.Inventory
	inventory.PutServer("git", openServer)
	inventory.Put("git", callability.ToolEntry{Name: "git_reset", Facts: deniedTool})
	judgement, err := inventory.Judge(bundled(t, "shipped.bundle"), nil, callability.AllServers())
	if err != nil {
		t.Fatal(err)
	}
	if _, known := judgement.Text("git:git_reset"); known {
		t.Error("found a text")
	}
	for _, flag := range []bool{false, true} {
		result, err := judgement.Discovery(callability.Discovery{Query: "reset", IncludeDisabled: flag})
		if err != nil || flag != strings.Contains(result.Text, "disabled_by_config") || flag == strings.Contains(result.Text, "notice") {
			t.Errorf("flag %t: found %s and %v", flag, result.Text, err)
		}
	}
	inventory.Put("git", entry("git_reset", deniedTool))
	if _, known := inventory.Text("git:git_reset"); !known {
		t.Error("found no text")
	}
}

// discoveredWith is the answer about one callable tool with a schema.
func discoveredWith(t *testing.T, schema string) (callability.Result, error) {
	t.Helper()
	var inventory callability.Inventory
	inventory.PutServer("git", openServer)
	inventory.Put("git", callability.ToolEntry{
		Name: "status", Facts: openTool, Text: callability.ToolText{InputSchema: []byte(schema)},
	})
	judgement, err := inventory.Judge(bundled(t, "shipped.bundle"), nil, callability.AllServers())
	if err != nil {
		t.Fatal(err)
	}
	return judgement.Discovery(callability.Discovery{Query: "status", Found: judgement.CallableNames()})
}

func TestASchemaTakesMemoryByItsSizeHoweverDeepItIsNested(t *testing.T) {
	const levels = 4500
	word := `"` + strings.Repeat("x", mebibyte) + `"`
	nested := func(before, after string) string {
		return strings.Repeat(before, levels) + word + strings.Repeat(after, levels)
	}
	for schema, wanted := range map[string]string{
		nested("[ ", " ]"):                              nested("[", "]"),
		nested(`{"b": 1, "a": 2, "b": `, ` }`):          nested(`{"b":`, `,"a":2}`),
		nested(`{"a": 1, "a": 2, "a": [`, `], "b": 3}`): nested(`{"a":[`, `],"b":3}`),
	} {
		found := allocated(func() {
			result, err := discoveredWith(t, schema)
			if err != nil || !strings.Contains(string(result.StructuredContent), `"inputSchema":`+wanted+`}`) {
				t.Errorf("%.30s: found another schema, or %v", schema, err)
			}
		})
		if found > 64*mebibyte {
			t.Errorf("%.30s: found %d bytes allocated", schema, found)
		}
	}
}

func TestASchemaThatIsNotJSONIsNoWrongArgumentOfTheAgent(t *testing.T) {
	for _, schema := range []string{"", "{", "{} {}", strings.Repeat("[", 4_000_000)} {
		_, err := discoveredWith(t, schema)
		var invalid *callability.InvalidArgument
		if err == nil || errors.As(err, &invalid) || !strings.Contains(err.Error(), "git:status") {
			t.Errorf("%.30q: found %v", schema, err)
		}
	}
}
