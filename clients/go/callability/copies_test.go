package callability_test

import (
	"crypto/ed25519"
	"reflect"
	"testing"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/shipped"
)

// TestWhatIsHandedOutCanBeWrittenWithoutEffect writes to all that an answer refers to, and decides again.
func TestWhatIsHandedOutCanBeWrittenWithoutEffect(t *testing.T) {
	read := func() *callability.Policy {
		policy, err := callability.ReadPolicy(shipped.Bundle())
		if err != nil {
			t.Fatal(err)
		}
		return policy
	}
	policy := read()
	// The server is off, and the config denies the tool, so that a lock remains.
	tool := callability.NewServer("git", callability.ServerFacts{Enabled: callability.False}).Tool("git_push", deniedTool)
	found, wanted := policy.Decide(nil, tool).Answer(), read().Decide(nil, tool).Answer()
	if len(found.Remaining.Steps) == 0 {
		t.Fatal("found no lock that remains")
	}
	found.Words.Phrases["enable_server"] = "written"
	for place := range found.Remaining.Steps {
		step := &found.Remaining.Steps[place]
		for number := range step.Changes {
			step.Changes[number].Wanted[0], step.Changes[number].Fact = "written", "written"
		}
		step.Rule = "written"
	}
	policy.Decide(nil, tool).Words().Phrases["edit_config"] = "written"
	if after := policy.Decide(nil, tool).Answer(); !reflect.DeepEqual(after, wanted) {
		t.Errorf("found %+v, wanted %+v", after, wanted)
	}
}

func TestWhatAHandleWasMadeOfCanBeWrittenWithoutEffect(t *testing.T) {
	destructive := true
	server := callability.NewServer("git", callability.ServerFacts{Labels: callability.Labels{"a": "b"}})
	given := callability.ToolFacts{Labels: callability.Labels{"a": "b"}, Annotations: &callability.Annotations{Destructive: &destructive}}
	tool, agent := server.Tool("git_push", given), callability.NewAgent(callability.AgentFacts{Labels: callability.Labels{"a": "b"}})
	destructive, given.Labels["a"] = false, "written"
	server.Facts().Labels["a"] = "written"
	of, _ := agent.Facts()
	of.Labels["a"] = "written"
	handed := tool.Facts()
	handed.Labels["a"], *handed.Annotations.Destructive = "written", false
	of, _ = agent.Facts()
	if !*tool.Facts().Annotations.Destructive || tool.Facts().Labels["a"] != "b" || server.Facts().Labels["a"] != "b" || of.Labels["a"] != "b" {
		t.Errorf("found %+v, %+v, %+v", tool.Facts(), server.Facts(), of)
	}
}

func TestTheKeysOfAnOptionAreThoseOfItsCall(t *testing.T) {
	public, private := generated(t)
	bundle := signed(shippedPayload(t), map[string]ed25519.PrivateKey{"2026": private})
	keys := map[string]ed25519.PublicKey{"2026": public}
	option := callability.TrustKeys(keys)
	delete(keys, "2026")
	public[0]++
	if _, err := callability.ReadPolicy(bundle, option); err != nil {
		t.Error(err)
	}
}
