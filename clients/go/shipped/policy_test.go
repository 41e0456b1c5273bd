package shipped_test

import (
	"fmt"
	"testing"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/shipped"
)

// The shipped policy decides with nothing but the module.
func Example() {
	git := callability.NewServer("git", callability.ServerFacts{
		Enabled: callability.True, Quarantined: callability.True, Labels: callability.NoLabels(),
	})
	log := git.Tool("git_log", callability.ToolFacts{
		ConfigDenied: callability.False, Approval: callability.NoRecord(), Annotations: &callability.Annotations{},
		Labels: callability.NoLabels(),
	})
	verdict := shipped.Policy().Decide(callability.NewAgent(callability.AgentFacts{}), log)
	fmt.Println(verdict.Status())
	// Output: server_quarantined
}

// BenchmarkReadPolicy is what a bundle costs until it decides.
func BenchmarkReadPolicy(b *testing.B) {
	bundle := shipped.Bundle()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := callability.ReadPolicy(bundle); err != nil {
			b.Fatal(err)
		}
	}
}
