package callability_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/callability/callability/clients/go/callability"
)

func TestAScopeThatNobodySetIsNoServer(t *testing.T) {
	var inventory callability.Inventory
	for _, server := range []string{"hr", "git"} {
		inventory.PutServer(server, openServer)
		inventory.Put(server, entry("read", openTool))
	}
	var names []string // built by append, for an agent that may see no server
	for _, scope := range []callability.Scope{{}, callability.Servers(), callability.Servers(names...)} {
		judgement, err := inventory.Judge(t.Context(), bundled(t, "shipped.bundle"), nil, scope)
		if err != nil || len(judgement.CallableNames())+len(judgement.LockedNames()) > 0 || len(inventory.Servers(scope)) > 0 {
			t.Errorf("found %q, %v", judgement.CallableNames(), err)
		}
	}
	judgement, err := inventory.Judge(t.Context(), bundled(t, "shipped.bundle"), nil, callability.AllServers())
	if err != nil || len(judgement.CallableNames()) != 2 {
		t.Errorf("found %q, %v", judgement.CallableNames(), err)
	}
}

func TestAScopeDoesNotChangeWithTheNamesItWasMadeOf(t *testing.T) {
	names := []string{"git"}
	scope := callability.Servers(names...)
	names[0] = "hr"
	if scope.Includes("hr") || !scope.Includes("git") {
		t.Error("the scope has another server than it was made with")
	}
}

func TestLabelsThatAreNoneBelongToTheirCaller(t *testing.T) {
	callability.NoLabels()["environment"] = "production"
	if found := callability.NoLabels(); len(found) > 0 || found == nil {
		t.Errorf("found %v", found)
	}
}

func TestAMisspelledLabelIsFound(t *testing.T) {
	policy := bundled(t, "environments.bundle")
	known := callability.ServerFacts{Enabled: callability.True, Quarantined: callability.False}
	for _, each := range []struct {
		labels callability.Labels
		wanted []callability.Finding
	}{
		{callability.Labels{"environment": "production"}, nil},
		{callability.Labels{}, nil},
		{callability.Labels{"enviroment": "production"}, []callability.Finding{
			{Fault: callability.FaultUndeclaredLabel, Fact: "server.label.enviroment", Value: "production", Near: "environment"}}},
		{callability.Labels{"environment": "prod"}, []callability.Finding{
			{Fault: callability.FaultUndeclaredValue, Fact: "server.label.environment", Value: "prod", Near: "production"}}},
		{nil, []callability.Finding{{Fault: callability.FaultMissingGroup, Fact: "server.label"}}},
	} {
		known.Labels = each.labels
		if found := policy.Check(known); !slices.Equal(found, each.wanted) {
			t.Errorf("labels %v: found %v, wanted %v", each.labels, found, each.wanted)
		}
	}
}

func TestDeclaredFactsAreCheckedForTheirSubject(t *testing.T) {
	policy := bundled(t, "quotas.bundle")
	vocabulary := policy.Vocabulary()
	if len(vocabulary.Facts) == 0 {
		t.Fatal("the example declares no fact")
	}
	fact := vocabulary.Facts[0]
	facts := func(declared callability.Declared) callability.Facts {
		switch fact.Subject {
		case "server":
			return callability.ServerFacts{
				Enabled: callability.True, Quarantined: callability.False, Labels: callability.NoLabels(), Declared: declared,
			}
		case "tool":
			return callability.ToolFacts{
				ConfigDenied: callability.False, Approval: callability.NoRecord(), Annotations: &callability.Annotations{},
				Labels: callability.NoLabels(), Declared: declared,
			}
		}
		return callability.AgentFacts{Labels: callability.NoLabels(), Declared: declared}
	}
	if found := policy.Check(facts(callability.Declared{fact.Name: fact.Values[0]})); len(found) > 0 {
		t.Errorf("found %v", found)
	}
	for given, wanted := range map[string]callability.Fault{fact.Name: callability.FaultUndeclaredValue, fact.Name + "x": callability.FaultUndeclaredFact} {
		found := policy.Check(facts(callability.Declared{given: "odd"}))
		if !slices.ContainsFunc(found, func(each callability.Finding) bool { return each.Fault == wanted && each.Fact == given }) {
			t.Errorf("%s: found %v, wanted %s", given, found, wanted)
		}
	}
	for _, action := range vocabulary.Actions {
		if action.Name == "" || action.Phrase == "" {
			t.Errorf("found the action %v", action)
		}
	}
}

func TestWithoutAPolicyThereIsNoVocabulary(t *testing.T) {
	var policy *callability.Policy
	found := policy.Vocabulary()
	if fmt.Sprint(found) != fmt.Sprint(callability.Vocabulary{}) || len(policy.Check(openServer)) > 0 {
		t.Errorf("found %v", found)
	}
}
