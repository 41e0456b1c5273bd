package callability_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/callability/callability/clients/go/callability"
)

func twice() *callability.Tool {
	return callability.NewServer("git", offServer).Tool("git_push", callability.ToolFacts{
		ConfigDenied: callability.True, Approval: callability.NoRecord(), Annotations: &callability.Annotations{},
		Labels: callability.NoLabels(),
	})
}

func TestARejectionSaysWhichLocksRemain(t *testing.T) {
	inventory := &callability.Inventory{}
	for _, err := range []error{
		inventory.PutServer("git", offServer),
		inventory.Put("git", callability.ToolEntry{Name: "git_push", Facts: twice().Facts()}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	found := inventory.Decide(t.Context(), bundled(t, "shipped.bundle"), nil, callability.AllServers(), "git:git_push")
	wanted := " Then the operator must edit the server's tool lists in the config. Both the user and the operator must act. "
	if found.Rejection == nil || !strings.Contains(found.Rejection.Text, wanted) {
		t.Errorf("found %+v, wanted it to say %q", found.Rejection, wanted)
	}
}

func TestNothingRemainsOfACallableToolASingleLockAndAVerdictThatIsNone(t *testing.T) {
	policy := bundled(t, "shipped.bundle")
	single := open().Server().Tool("git_push", twice().Facts())
	for name, verdict := range map[string]callability.Verdict{
		"callable": policy.Decide(nil, open()), "a single lock": policy.Decide(nil, single), "no verdict": {},
		"an item with an error": policy.Decide(nil, new(callability.Tool)),
		"undetermined":          policy.Decide(nil, callability.NewServer("git", callability.ServerFacts{}).Tool("t", callability.ToolFacts{})),
	} {
		if found := verdict.Remaining(); len(found.Steps) != 0 || found.End != callability.PathEndUnspecified {
			t.Errorf("%s: found %+v", name, found)
		}
	}
}

func TestWhatRemainsIsFoundOnceForAgentsOnAllThreads(t *testing.T) {
	policy := bundled(t, "agents-allowed.bundle")
	tool := callability.NewServer("billing-1", offServer).Tool("pay", twice().Facts())
	found := make([]callability.Path, 8)
	var group sync.WaitGroup
	for place := range found {
		group.Add(1)
		go func() {
			defer group.Done()
			found[place] = policy.Decide(named("ledger-bot"), tool).Remaining()
		}()
	}
	group.Wait()
	for _, each := range found {
		if len(each.Steps) != 1 || each.Steps[0].Changes[0].Action != "edit_config" {
			t.Errorf("found %+v, wanted that the operator edits the config", each)
		}
	}
	if other := policy.Decide(named("stranger"), tool).Remaining(); other.End != callability.PathEndPolicyChange {
		t.Errorf("found %+v for an agent that the policy does not list", other)
	}
	verdict := policy.Decide(named("ledger-bot"), tool)
	if count := testing.AllocsPerRun(100, func() { verdict.Remaining() }); count != 3 {
		t.Errorf("found %v allocations for what is known, wanted 3: those of a copy of a step with a change", count)
	}
}
