package callability_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/callability/callability/clients/go/callability"
)

// open is a tool that the shipped policy lets through.
func open() *callability.Tool {
	server := callability.NewServer("git", callability.ServerFacts{
		Enabled: callability.True, Quarantined: callability.False, Labels: callability.NoLabels(),
	})
	return server.Tool("git_log", callability.ToolFacts{
		ConfigDenied: callability.False, Approval: callability.NoRecord(), Annotations: &callability.Annotations{},
		Labels: callability.NoLabels(),
	})
}

func TestTheZeroValueOfEveryTypeFailsClosed(t *testing.T) {
	policy := bundled(t, "shipped.bundle")
	agent := callability.NewAgent(callability.AgentFacts{})
	zeroServer := new(callability.Server).Tool("git_log", callability.ToolFacts{})
	for name, verdict := range map[string]callability.Verdict{
		"no verdict":       {},
		"nil policy":       (*callability.Policy)(nil).Decide(agent, open()),
		"zero policy":      new(callability.Policy).Decide(agent, open()),
		"empty store":      new(callability.PolicyStore).Load().Decide(agent, open()),
		"nil tool":         policy.Decide(agent, nil),
		"zero tool":        policy.Decide(agent, new(callability.Tool)),
		"zero server":      policy.Decide(agent, zeroServer),
		"zero facts":       policy.Decide(agent, callability.NewServer("git", callability.ServerFacts{}).Tool("t", callability.ToolFacts{})),
		"nothing anywhere": policy.Decide(nil, nil),
	} {
		if verdict.Callable() || !verdict.WithholdText() {
			t.Errorf("%s: found %s, withheld %t", name, verdict.Status(), verdict.WithholdText())
		}
		if verdict.Revision() == "" && !errors.Is(verdict.Err(), callability.ErrNoPolicy) {
			t.Errorf("%s: found error %v, wanted %v", name, verdict.Err(), callability.ErrNoPolicy)
		}
	}
	if (callability.Decision{}).Callable() || (&callability.Judgement{}).Callable("git:git_log") || (callability.Scope{}).Includes("git") {
		t.Error("a zero decision, judgement or scope opens something")
	}
	if _, held := (callability.Adapter{}).Rejection(callability.Item{}); !held {
		t.Error("a zero answer is not held back")
	}
	if verdict := policy.Decide(agent, open()); !verdict.Callable() || verdict.WithholdText() || verdict.Err() != nil {
		t.Errorf("a tool that nothing locks: found %s, error %v", verdict.Status(), verdict.Err())
	}
	if !policy.Decide(new(callability.Agent), open()).Callable() {
		t.Error("the shipped policy reads nothing of the agent, and holds a tool back for it")
	}
}

func TestAnItemThatCannotBeJudgedIsHeldBackAndSaysWhy(t *testing.T) {
	policy := bundled(t, "shipped.bundle")
	server := callability.NewServer("git", callability.ServerFacts{Enabled: callability.True, Quarantined: callability.False})
	facts := callability.ToolFacts{ConfigDenied: callability.False, Approval: callability.NoRecord()}
	many := callability.Labels{}
	for number := range 65 {
		many[strings.Repeat("k", number+1)] = "v"
	}
	for reason, decide := range map[string]func() callability.Verdict{
		"NAME_EMPTY":    func() callability.Verdict { return policy.Decide(nil, server.Tool("", facts)) },
		"NAME_TOO_LONG": func() callability.Verdict { return policy.Decide(nil, server.Tool(strings.Repeat("x", 513), facts)) },
		"NAME_NOT_UTF8": func() callability.Verdict { return policy.Decide(nil, server.Tool("\xff", facts)) },
		"TOO_MANY_LABELS": func() callability.Verdict {
			return policy.Decide(nil, server.Tool("t", callability.ToolFacts{Labels: many}))
		},
		"LABEL_KEY_SIZE": func() callability.Verdict {
			return policy.Decide(nil, server.Tool("t", callability.ToolFacts{Labels: callability.Labels{"": "v"}}))
		},
		"LABEL_VALUE_TOO_LONG": func() callability.Verdict {
			agent := callability.NewAgent(callability.AgentFacts{Labels: callability.Labels{"k": strings.Repeat("v", 513)}})
			return policy.Decide(agent, server.Tool("t", facts))
		},
		"DECLARED_FACT_VALUE_SIZE": func() callability.Verdict {
			return policy.Decide(nil, server.Tool("t", callability.ToolFacts{Declared: callability.Declared{"proxy.quota": ""}}))
		},
	} {
		verdict := decide()
		var item *callability.ItemError
		if !errors.As(verdict.Err(), &item) || item.Reason != reason {
			t.Errorf("%s: found %v", reason, verdict.Err())
		}
		if verdict.Status() != callability.StatusDisabledUnknown || !verdict.WithholdText() || verdict.Callable() {
			t.Errorf("%s: found %s, withheld %t", reason, verdict.Status(), verdict.WithholdText())
		}
	}
}

func TestFactsThatChangeAreDecidedAgain(t *testing.T) {
	policy, tool := bundled(t, "shipped.bundle"), open()
	policy.Decide(nil, tool)
	tool = tool.On(tool.Server().With(callability.ServerFacts{Enabled: callability.False, Quarantined: callability.False}))
	if status := policy.Decide(nil, tool).Status(); status != callability.StatusServerDisabled {
		t.Errorf("found %s, wanted %s", status, callability.StatusServerDisabled)
	}
	tool = tool.On(tool.Server().With(callability.ServerFacts{Enabled: callability.True, Quarantined: callability.False}))
	tool = tool.With(callability.ToolFacts{ConfigDenied: callability.True})
	verdict := policy.Decide(nil, tool)
	if verdict.Status() != callability.StatusDisabledByConfig || verdict.LiftedBy() != callability.LiftedByOperator {
		t.Errorf("found %s, wanted %s", verdict.Status(), callability.StatusDisabledByConfig)
	}
	if words := verdict.Words(); !strings.Contains(words.Remediation, "{edit_config}") || words.Rejection == "" {
		t.Errorf("found the words %+v", words)
	}
}

func TestFactsOfACallerThatChangesItsMapsLaterAreNotChanged(t *testing.T) {
	policy := bundled(t, "environments.bundle")
	labels := callability.Labels{"environment": "production"}
	server := callability.NewServer("db", callability.ServerFacts{Enabled: callability.True, Quarantined: callability.False, Labels: labels})
	tool := server.Tool("drop", callability.ToolFacts{
		ConfigDenied: callability.False, Approval: callability.NoRecord(), Annotations: &callability.Annotations{}, Labels: callability.NoLabels(),
	})
	labels["environment"] = "staging"
	before := policy.Decide(nil, tool)
	tool = tool.On(server.With(callability.ServerFacts{Enabled: callability.True, Quarantined: callability.False, Labels: labels}))
	if after := policy.Decide(nil, tool); after.Status() == before.Status() {
		t.Errorf("found %s for both environments", after.Status())
	}
}

func TestDecidingAllocatesNothing(t *testing.T) {
	for _, name := range []string{"shipped.bundle", "agents-allowed.bundle", "environments.bundle"} {
		policy, tool := bundled(t, name), open()
		agent := callability.NewAgent(callability.AgentFacts{Name: "assistant", Labels: callability.NoLabels()})
		policy.Decide(agent, tool)
		if found := testing.AllocsPerRun(100, func() { policy.Decide(agent, tool).Callable() }); found != 0 {
			t.Errorf("%s: found %v allocations, wanted 0", name, found)
		}
	}
}

func TestAPolicyIsSwappedWhileOthersDecide(t *testing.T) {
	var store callability.PolicyStore
	one, other := bundled(t, "shipped.bundle"), bundled(t, "environments.bundle")
	store.Swap(one)
	agent, tool := callability.NewAgent(callability.AgentFacts{}), open()
	var group sync.WaitGroup
	for range 4 {
		group.Add(1)
		go func() {
			defer group.Done()
			for range 2000 {
				verdict := store.Load().Decide(agent, tool)
				if revision := verdict.Revision(); revision != one.Revision() && revision != other.Revision() || verdict.Rule() == "" {
					t.Errorf("found revision %q and rule %q", revision, verdict.Rule())
				}
			}
		}()
	}
	for range 1000 {
		store.Swap(other)
		store.Swap(one)
	}
	group.Wait()
}

// TestALaterCallMaySucceedOnlyIfFactsThatCanBecomeKnownOpenTheTool takes the shipped policy.
func TestALaterCallMaySucceedOnlyIfFactsThatCanBecomeKnownOpenTheTool(t *testing.T) {
	policy := bundled(t, "shipped.bundle")
	for name, each := range map[string]struct {
		enabled  callability.Bool
		approval callability.Approval
		refuses  bool
		wanted   callability.Retry
	}{
		"an unknown server":                  {callability.Unknown, callability.NoRecord(), false, callability.RetryLater},
		"an unknown server, another lock":    {callability.Unknown, callability.Record(callability.True, callability.ApprovalApproved), false, callability.RetryNever},
		"an unknown server, a refusal":       {callability.Unknown, callability.NoRecord(), true, callability.RetryNever},
		"a status that was not read":         {callability.True, callability.Record(callability.False, callability.ApprovalUnknown), false, callability.RetryLater},
		"a status that is none":              {callability.True, callability.Record(callability.False, callability.ApprovalOther), false, callability.RetryNever},
		"a status of a later version":        {callability.True, callability.Record(callability.False, 9), false, callability.RetryNever},
		"a record of which one half is none": {callability.True, callability.Record(callability.Unknown, callability.ApprovalOther), false, callability.RetryNever},
		"a record that was half read":        {callability.True, callability.Record(callability.Unknown, callability.ApprovalApproved), false, callability.RetryLater},
		"a truth value that is neither":      {callability.True, callability.Record(callability.Neither, callability.ApprovalApproved), false, callability.RetryNever},
		"an approval that was not read":      {callability.True, callability.Approval{}, false, callability.RetryLater},
	} {
		server := callability.NewServer("git", callability.ServerFacts{Enabled: each.enabled, Quarantined: callability.False})
		tool := server.Tool("log", callability.ToolFacts{
			ConfigDenied: callability.False, Approval: each.approval, CallerRefuses: each.refuses,
		})
		for range 2 {
			verdict := policy.Decide(nil, tool)
			if !verdict.Undetermined() || verdict.Retry() != each.wanted {
				t.Errorf("%s: found %s, undetermined %t, wanted %s", name, verdict.Retry(), verdict.Undetermined(), each.wanted)
			}
		}
	}
}
