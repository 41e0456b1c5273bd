package callability_test

import (
	"testing"

	"github.com/callability/callability/clients/go/callability"
)

func TestAServerIsDecidedWithoutATool(t *testing.T) {
	quarantined := callability.ServerFacts{Enabled: callability.True, Quarantined: callability.True, Labels: callability.NoLabels()}
	shipped, agents := bundled(t, "shipped.bundle"), bundled(t, "agents-allowed.bundle")
	for name, each := range map[string]struct {
		policy *callability.Policy
		agent  *callability.Agent
		server *callability.Server
		wanted callability.Status
	}{
		"enabled":              {shipped, nil, callability.NewServer("git", openServer), callability.StatusCallable},
		"disabled":             {shipped, nil, callability.NewServer("git", offServer), callability.StatusServerDisabled},
		"in quarantine":        {shipped, nil, callability.NewServer("git", quarantined), callability.StatusServerQuarantined},
		"not known":            {shipped, nil, callability.NewServer("git", callability.ServerFacts{}), callability.StatusDisabledUnknown},
		"nil":                  {shipped, nil, nil, callability.StatusDisabledUnknown},
		"without a policy":     {nil, nil, callability.NewServer("git", openServer), callability.StatusUnspecified},
		"for a listed agent":   {agents, named("ledger-bot"), callability.NewServer("billing-1", openServer), callability.StatusCallable},
		"for no listed agent":  {agents, named("stranger"), callability.NewServer("billing-1", openServer), callability.StatusDisabledByConfig},
		"for an unknown agent": {agents, nil, callability.NewServer("billing-1", openServer), callability.StatusDisabledUnknown},
	} {
		if found := each.policy.DecideServer(each.agent, each.server).Status(); found != each.wanted {
			t.Errorf("a server that is %s: found %s, wanted %s", name, found, each.wanted)
		}
	}
}

// TestAServerIsLockedIfAndOnlyIfEachToolIs compares with every combination of what is known of a tool.
func TestAServerIsLockedIfAndOnlyIfEachToolIs(t *testing.T) {
	truths := []callability.Bool{callability.False, callability.True}
	for _, name := range []string{"shipped.bundle", "agents-allowed.bundle", "environments.bundle", "change-freeze.bundle", "trial-server.bundle"} {
		policy := bundled(t, name)
		for _, server := range []*callability.Server{
			callability.NewServer("git", openServer), callability.NewServer("billing-1", openServer), callability.NewServer("git", offServer),
			callability.NewServer("db", callability.ServerFacts{Enabled: callability.True, Quarantined: callability.False,
				Labels: callability.Labels{"environment": "production"}}),
			callability.NewServer("db", callability.ServerFacts{Enabled: callability.True, Labels: callability.NoLabels()}),
		} {
			some := false
			for _, denied := range truths {
				for _, readOnly := range []bool{false, true} {
					for _, destructive := range []bool{false, true} {
						for _, tool := range []string{"read", "delete_all", "find"} {
							facts := callability.ToolFacts{
								ConfigDenied: denied, Approval: callability.NoRecord(), Labels: callability.NoLabels(),
								Annotations: &callability.Annotations{ReadOnly: &readOnly, Destructive: &destructive},
							}
							some = some || policy.Decide(named("stranger"), server.Tool(tool, facts)).Callable()
						}
					}
				}
			}
			if found := policy.DecideServer(named("stranger"), server).Callable(); found != some {
				t.Errorf("%s, server %s %+v: found %t, wanted %t", name, server.Name(), server.Facts(), found, some)
			}
		}
	}
}

func TestAPolicyReadsFactsAndGroups(t *testing.T) {
	policy := bundled(t, "environments.bundle")
	for fact, wanted := range map[string]bool{
		"server.label.environment": true, "server.label": true, "approval": true, "approval.status": true, "tool.label": false,
		"server.lab": false, "": false,
	} {
		if found := policy.Reads(fact); found != wanted {
			t.Errorf("%s: found %t", fact, found)
		}
	}
	if (*callability.Policy)(nil).Reads("approval") {
		t.Error("a policy that is not there reads a fact")
	}
}
