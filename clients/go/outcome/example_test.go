package outcome_test

import (
	"fmt"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/outcome"
	"github.com/callability/callability/clients/go/shipped"
)

// A load that failed is classified by what was observed, and the agent reads which servers did not load.
func ExampleClassifyLoad() {
	answer := outcome.ClassifyLoad(shipped.Policy(), outcome.LoadFacts{Phase: outcome.PhaseConnect, Failure: outcome.FailureRefused})
	fmt.Println(answer.Status, answer.Rule)
	answers, reasons := map[string]outcome.LoadAnswer{"git": answer}, map[string]string{"git": "nothing listens on its port"}
	for _, message := range outcome.LoadMessages(callability.Adapter{}, answers, reasons) {
		fmt.Println(message.Text)
	}
	// Output:
	// permanent needs-attention
	// Needs attention: "git" (nothing listens on its port). The operator must check the server and its config entry.
}

// An enable is classified when it has ended, and its result is what the agent reads.
func ExampleClassifyEnable() {
	answer := outcome.ClassifyEnable(shipped.Policy(), outcome.EnableFacts{
		Known: callability.True, WasConnected: callability.False, Credentials: outcome.CredentialsMissing,
	})
	fmt.Println(answer.Status, answer.Entry)
	fmt.Println(outcome.EnableResult(callability.Adapter{}, answer, "git", outcome.EnableDetails{Variables: []string{"GIT_TOKEN"}}).Text)
	// Output:
	// missing_credentials none
	// Not connected: missing_credentials. Server "git" needs variables that are not set: "GIT_TOKEN". Nothing was connected. The operator must set them. Do not claim that it is connected or call its tools.
}
