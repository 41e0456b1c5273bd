// A client of a callability service in Go.
//
//	go run . ADDRESS                 asks about a few tools, and prints a line for each
//	go run . ADDRESS calls.json      replays golden vectors, and prints those that are answered otherwise
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/remote"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 || len(os.Args) > 3 {
		log.Fatal("usage: go run . ADDRESS [calls.json]")
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		log.Fatal(err)
	}
}

func run(address string, vectors []string) error {
	client, err := remote.Dial([]string{address})
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if len(vectors) > 0 {
		return replay(ctx, client, vectors[0])
	}
	return checkTools(ctx, client)
}

// What this client knows of its tools. A fact that it does not know is left out: the approval of `git_log`.
//
// Labels and annotations are always sent, even if they are empty. A group that is left out is unknown as a whole, and each
// tool that reaches a rule about it is held back.
func inventory() []*callability.Tool {
	git := callability.NewServer("git", callability.ServerFacts{
		Enabled: callability.True, Quarantined: callability.False, Labels: callability.Labels{"environment": "production"},
	})
	clock := callability.NewServer("time", callability.ServerFacts{
		Enabled: callability.False, Quarantined: callability.False, Labels: callability.NoLabels(),
	})
	facts := func(denied callability.Bool, approval callability.Approval) callability.ToolFacts {
		return callability.ToolFacts{
			ConfigDenied: denied, Approval: approval, Annotations: &callability.Annotations{}, Labels: callability.NoLabels(),
		}
	}
	return []*callability.Tool{
		git.Tool("git_status", facts(callability.False, callability.NoRecord())),
		git.Tool("git_reset", facts(callability.True, callability.NoRecord())),
		git.Tool("git_push", facts(callability.False, callability.Record(callability.True, callability.ApprovalApproved))),
		git.Tool("git_log", facts(callability.False, callability.Approval{})),
		clock.Tool("now", facts(callability.False, callability.NoRecord())),
	}
}

func checkTools(ctx context.Context, client *remote.Client) error {
	agent := callability.NewAgent(callability.AgentFacts{Name: "assistant", Labels: callability.NoLabels()})
	for _, tool := range inventory() {
		answer, err := client.Check(ctx, agent, tool)
		if err != nil {
			return err
		}
		unread := ""
		if len(answer.Unread) > 0 {
			unread = ", unread: " + strings.Join(answer.Unread, ", ")
		}
		fmt.Printf("%s:%s %s, retry %s, by %s%s\n", tool.Server().Name(), tool.Name(), answer.Status, answer.Retry, answer.Rule, unread)
	}
	return nil
}
