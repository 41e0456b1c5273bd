package callability_test

import (
	"errors"
	"testing"

	"github.com/callability/callability/clients/go"
)

func text(description string) callability.ToolText {
	return callability.ToolText{Description: &description, InputSchema: []byte(`{"type": "object"}`)}
}

func entry(name string, facts callability.ToolFacts) callability.ToolEntry {
	return callability.ToolEntry{Name: name, Facts: facts, Text: text("Does " + name + ".")}
}

var (
	openServer = callability.ServerFacts{Enabled: callability.True, Quarantined: callability.False, Labels: callability.NoLabels}
	openTool   = callability.ToolFacts{ConfigDenied: callability.False, Approval: callability.NoRecord,
		Annotations: &callability.Annotations{}, Labels: callability.NoLabels}
	deniedTool = callability.ToolFacts{ConfigDenied: callability.True, Approval: callability.NoRecord,
		Annotations: &callability.Annotations{}, Labels: callability.NoLabels}
)

func discovered(t *testing.T, inventory *callability.Inventory, scope []string, locked bool) string {
	t.Helper()
	judgement, err := inventory.Judge(bundled(t, "shipped.bundle"), nil, scope)
	if err != nil {
		t.Fatal(err)
	}
	result, err := judgement.Discovery(callability.Discovery{
		Query: "git status", Found: judgement.CallableNames(), FoundLocked: judgement.LockedNames(), IncludeDisabled: locked, Text: inventory.Text,
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
	before := discovered(t, &inventory, nil, false)
	inventory.Put("git", entry("git_reset", deniedTool))
	inventory.PutServer("off", callability.ServerFacts{Enabled: callability.False, Quarantined: callability.False})
	inventory.Put("off", entry("git_status_2", openTool))
	if after := discovered(t, &inventory, nil, false); after != before {
		t.Errorf("found %s, wanted %s", after, before)
	}
	if with := discovered(t, &inventory, nil, true); with == before {
		t.Errorf("the locked tools are not shown: %s", with)
	}
}

func TestAServerOutOfScopeDoesNotExist(t *testing.T) {
	var inventory callability.Inventory
	inventory.PutServer("git", openServer)
	inventory.Put("git", entry("git_status", openTool))
	before := discovered(t, &inventory, []string{"git"}, true)
	inventory.PutServer("secret", openServer)
	inventory.Replace("secret", []callability.ToolEntry{entry("git_status", deniedTool), entry("git_reset", openTool)})
	if after := discovered(t, &inventory, []string{"git"}, true); after != before {
		t.Errorf("found %s, wanted %s", after, before)
	}
	if nothing := discovered(t, &inventory, []string{}, true); nothing == before {
		t.Error("an empty scope shows what a scope shows")
	}
}

func TestAnInventoryThatChangesIsJudgedAgain(t *testing.T) {
	var inventory callability.Inventory
	policy := bundled(t, "shipped.bundle")
	status := func() callability.Status {
		judgement, err := inventory.Judge(policy, nil, nil)
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
	if _, err := inventory.Judge(nil, nil, nil); !errors.Is(err, callability.ErrNoPolicy) {
		t.Errorf("found %v, wanted %v", err, callability.ErrNoPolicy)
	}
}

func TestAnItemWithAnErrorCountsAsUnknown(t *testing.T) {
	var inventory callability.Inventory
	inventory.PutServer("git", openServer)
	inventory.Put("git", entry("git_status", openTool))
	inventory.Put("git", entry("", openTool))
	judgement, err := inventory.Judge(bundled(t, "shipped.bundle"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if found, wanted := string(judgement.Counts()), `{"git":{"callable":1,"disabled_unknown":1}}`; found != wanted {
		t.Errorf("found %s, wanted %s", found, wanted)
	}
}
