package remote_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/remote"
)

// Without an answer of a service, nothing is called, and the agent reads so. No service listens at this address.
func ExampleClient_Check() {
	client, err := remote.Dial([]string{"127.0.0.1:1"}, remote.WithAttemptTimeout(100*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	git := callability.NewServer("git", callability.ServerFacts{Enabled: callability.True, Quarantined: callability.False})
	tool := git.Tool("git_log", callability.ToolFacts{ConfigDenied: callability.False, Approval: callability.NoRecord()})
	answer, err := client.Check(context.Background(), callability.NewAgent(callability.AgentFacts{}), tool)
	switch {
	case errors.Is(err, remote.ErrUnavailable):
		fmt.Println(callability.Unavailable("").Text)
	case err != nil:
		log.Fatal(err)
	default:
		fmt.Println(answer.Status)
	}
	// Output:
	// Not done: the policy service gave no answer. Nothing was shown or called; this says nothing about any tool. A later retry may succeed. If it does not, tell the user that the operator of this proxy must look into it.
}
