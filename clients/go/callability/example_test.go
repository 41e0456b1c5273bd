package callability_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"strings"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/shipped"
)

// A proxy registers its servers and tools once, and decides each call by their handles.
func Example() {
	policy := shipped.Policy()
	git := callability.NewServer("git", callability.ServerFacts{
		Enabled: callability.True, Quarantined: callability.False, Labels: callability.NoLabels(),
	})
	reset := git.Tool("git_reset", callability.ToolFacts{
		ConfigDenied: callability.True, Approval: callability.NoRecord(), Annotations: &callability.Annotations{},
		Labels: callability.NoLabels(),
	})
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

// gitServer returns an inventory with one server, of which one tool is open and one is denied by the config.
func gitServer() *callability.Inventory {
	inventory := &callability.Inventory{}
	facts := callability.ToolFacts{
		ConfigDenied: callability.False, Approval: callability.NoRecord(), Annotations: &callability.Annotations{},
		Labels: callability.NoLabels(),
	}
	denied := facts
	denied.ConfigDenied = callability.True
	description := "Show the history."
	err := errors.Join(
		inventory.PutServer("git", callability.ServerFacts{
			Enabled: callability.True, Quarantined: callability.False, Labels: callability.NoLabels(),
		}),
		inventory.Replace("git", []callability.ToolEntry{
			{Name: "git_log", Facts: facts, Text: callability.ToolText{Description: &description}},
			{Name: "git_reset", Facts: denied},
		}),
	)
	if err != nil {
		log.Fatal(err)
	}
	return inventory
}

// An inventory judges its tools for an agent, and says what is wrong with one.
func ExampleInventory() {
	inventory := gitServer()
	judgement, err := inventory.Judge(context.Background(), shipped.Policy(), nil, callability.AllServers())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(judgement.CallableNames())
	fmt.Printf("%s\n", judgement.Counts())
	malformed := callability.ToolText{InputSchema: []byte(`{"type":`)}
	fmt.Println(inventory.Put("git", callability.ToolEntry{Name: "git_show", Text: malformed}))
	// Output:
	// [git:git_log]
	// {"git":{"callable":1,"disabled_by_config":1}}
	// tool "git_show" of server "git": callability: the text of a tool is not JSON: the input schema of 8 bytes
}

// A call is decided by the name that the agent gave.
func ExampleInventory_Decide() {
	inventory := gitServer()
	for _, name := range []string{"git:git_log", "git:git_reset", "git:git_lag"} {
		decision := inventory.Decide(context.Background(), shipped.Policy(), nil, callability.AllServers(), name)
		if !decision.Callable() {
			fmt.Println(decision.Rejection.Text)
			continue
		}
		fmt.Println("call", decision.Tool.Name(), "of", decision.Tool.Server().Name())
	}
	// Output:
	// call git_log of git
	// Not called: disabled_by_config, by policy. The config denies tool "git_reset" of server "git". The operator must edit the server's tool lists in the config. Only the operator can lift this. Do not retry until then. See `retrieve_tools` with `include_disabled: true`.
	// Not called: there is no tool "git:git_lag". Similar names: "git:git_log". Find tools with `retrieve_tools`.
}

// A decision by a handle takes some nanoseconds, and no memory.
func ExamplePolicy_Decide() {
	tool := gitServer().Tool("git", "git_reset")
	verdict := shipped.Policy().Decide(callability.NewAgent(callability.AgentFacts{}), tool)
	fmt.Println(verdict.Callable(), verdict.Status(), verdict.Rule())
	// Output:
	// false disabled_by_config operator-denied
}

// The search is the proxy's own, and looks at callable tools and at locked ones apart.
func ExampleJudgement_Discovery() {
	judgement, err := gitServer().Judge(context.Background(), shipped.Policy(), nil, callability.AllServers())
	if err != nil {
		log.Fatal(err)
	}
	result, err := judgement.Discovery(callability.Discovery{
		Query: "git", Found: judgement.CallableNames(), FoundLocked: judgement.LockedNames(), IncludeDisabled: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Text)
	// Output:
	// {"tools":[{"name":"git:git_log","server":"git","description":"Show the history."}],"total":1,"disabled":[{"name":"git:git_reset","server":"git","status":"disabled_by_config"}],"remediation":{"disabled_by_config":"Denied by the config; the user cannot override it. The operator must edit the server's tool lists in the config."}}
}

// A proxy with an answer of its own takes what it needs as values.
func ExampleJudgement_Locked() {
	judgement, err := gitServer().Judge(context.Background(), shipped.Policy(), nil, callability.AllServers())
	if err != nil {
		log.Fatal(err)
	}
	locked := judgement.Locked(callability.Discovery{Query: "reset"})
	for _, tool := range locked.Shown {
		fmt.Println(tool.Name, tool.Status)
	}
	fmt.Println(locked.Notice)
	// Output:
	// git:git_reset disabled_by_config
	// 1 matching tool exists but cannot be called; repeat with `include_disabled: true` to see why and who can change that.
}

// A store takes one bundle after another, and keeps the last good one.
func ExamplePolicyStore() {
	store := callability.PolicyStore{
		Hooks: callability.Hooks{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))},
	}
	fmt.Println(store.Replace(shipped.Bundle()), store.Load() != nil)
	err := store.Replace(shipped.Bundle()[:1000])
	fmt.Println(errors.Is(err, callability.ErrDamaged), store.Load() != nil)
	// Output:
	// <nil> true
	// true true
}

// With keys, a store takes signed bundles alone.
func ExampleTrustKeys() {
	key, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		log.Fatal(err)
	}
	store := callability.PolicyStore{Options: []callability.Option{
		callability.TrustKeys(map[string]ed25519.PublicKey{"2026": key}),
	}}
	fmt.Println(store.Replace(shipped.Bundle()))
	// Output:
	// callability: bundle refused: found no signature, wanted one by a key that is trusted [not-signed]
}

// printer is a Metrics that prints what it receives.
type printer struct{}

func (printer) Measure(name string, value float64, labels ...string) {
	if strings.HasSuffix(name, "_total") {
		fmt.Println(name, value, labels)
	}
}

// Hooks receive events and figures, and no name of a tool, a server or an agent.
func ExampleHooks() {
	inventory := gitServer()
	inventory.Hooks = callability.Hooks{Metrics: printer{}}
	if _, err := inventory.Judge(context.Background(), shipped.Policy(), nil, callability.AllServers()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// callability_client_tools_decided_total 2 []
}

// An explanation is for people: which rules were tried, and what would make the tool callable.
func ExamplePolicy_Explain() {
	policy := shipped.Policy()
	git := callability.NewServer("git", callability.ServerFacts{Enabled: callability.False, Quarantined: callability.False})
	commit := git.Tool("git_commit", callability.ToolFacts{ConfigDenied: callability.False, Approval: callability.NoRecord()})
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
