package callability_test

import (
	"fmt"
	"log"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/shipped"
)

// A proxy registers its servers and tools once, and decides each call by their handles.
func Example() {
	policy := shipped.Policy()
	git := callability.NewServer("git", callability.ServerFacts{Enabled: callability.True, Quarantined: callability.False})
	reset := git.Tool("git_reset", callability.ToolFacts{ConfigDenied: callability.True, Approval: callability.NoRecord})
	verdict := policy.Decide(nil, reset)
	fmt.Println(verdict.Status(), "by", verdict.Rule())
	fmt.Println("lifted by", verdict.LiftedBy(), "and retry", verdict.Retry())
	// Output:
	// disabled_by_config by operator-denied
	// lifted by operator and retry never
}

// A rejection is the result of a call of a tool that is not callable. It names the proxy's own command.
func ExampleAdapter_Rejection() {
	policy := shipped.Policy()
	git := callability.NewServer("git", callability.ServerFacts{Enabled: callability.True, Quarantined: callability.False})
	push := git.Tool("git_push", callability.ToolFacts{
		ConfigDenied: callability.False, Approval: callability.Record(callability.True, callability.ApprovalApproved),
	})
	adapter := callability.Adapter{Phrases: map[string]string{"enable_tool": "run `proxy enable {server} {tool}`"}}
	item := callability.Item{Server: "git", Tool: "git_push", Answer: policy.Decide(nil, push).Answer()}
	if result, rejected := adapter.Rejection(item); rejected {
		fmt.Println(result.Text)
	}
	// Output:
	// Not called: disabled_by_user, by policy. The user disabled tool "git_push" of server "git". If the request needs it, ask the user to run `proxy enable git git_push`. The user can lift this. Do not retry until then. See `retrieve_tools` with `include_disabled: true`.
}

// An inventory answers discovery. The search is the proxy's own; here, it finds everything.
func ExampleInventory() {
	policy := shipped.Policy()
	var inventory callability.Inventory
	inventory.PutServer("git", callability.ServerFacts{Enabled: callability.True, Quarantined: callability.False})
	inventory.Replace("git", []callability.ToolEntry{
		{Name: "git_log", Facts: callability.ToolFacts{ConfigDenied: callability.False, Approval: callability.NoRecord}},
		{Name: "git_reset", Facts: callability.ToolFacts{ConfigDenied: callability.True, Approval: callability.NoRecord}},
	})
	judgement, err := inventory.Judge(policy, nil, callability.AllServers())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(judgement.CallableNames())
	fmt.Printf("%s\n", judgement.Counts())
	// Output:
	// [git:git_log]
	// {"git":{"callable":1,"disabled_by_config":1}}
}

// An explanation is for people: which rules were tried, and what would make the tool callable.
func ExamplePolicy_Explain() {
	policy := shipped.Policy()
	git := callability.NewServer("git", callability.ServerFacts{Enabled: callability.False, Quarantined: callability.False})
	commit := git.Tool("git_commit", callability.ToolFacts{ConfigDenied: callability.False, Approval: callability.NoRecord})
	explanation, err := policy.Explain(nil, commit)
	if err != nil {
		log.Fatal(err)
	}
	for _, trial := range explanation.Trials {
		fmt.Println(trial.Rule, trial.Why)
	}
	for _, step := range explanation.Path.Steps {
		for _, change := range step.Changes {
			fmt.Printf("%s from %s to %s, by the %s: %s\n", change.Fact, change.Current, change.Wanted[0], change.ChangedBy, change.Phrase)
		}
	}
	// Output:
	// server-off holds, since `server.enabled` is false: gives `server_disabled`
	// server.enabled from false to true, by the user: enable the server
}
