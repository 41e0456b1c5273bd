package remote_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/callability/callability/clients/go"
	"github.com/callability/callability/clients/go/remote"
	v1 "github.com/callability/callability/clients/go/remote/v1"
)

// combinations are tools with every approval and several annotations, labels and names, on servers of each kind.
func combinations() []*callability.Tool {
	yes, no := true, false
	annotations := []*callability.Annotations{nil, {}, {ReadOnly: &yes, Destructive: &yes}, {Destructive: &no, Idempotent: &yes, OpenWorld: &no}}
	labels := []callability.Labels{nil, callability.NoLabels, {"environment": "production"}, {"environment": "none"}, {"environment": "odd"}}
	approvals := []callability.Approval{{}, callability.NoRecord}
	for _, disabled := range []callability.Bool{callability.Unknown, callability.False, callability.True} {
		for _, status := range []callability.ApprovalStatus{0, callability.Approved, callability.Pending, callability.Changed, 9} {
			approvals = append(approvals, callability.Record(disabled, status))
		}
	}
	var found []*callability.Tool
	for number, enabled := range []callability.Bool{callability.Unknown, callability.False, callability.True} {
		for _, label := range labels {
			server := callability.NewServer([]string{"git", "prod", "time"}[number], callability.ServerFacts{
				Enabled: enabled, Quarantined: callability.Bool(number), Labels: label,
			})
			for place, approval := range approvals {
				found = append(found, server.Tool([]string{"read", "delete_all"}[place%2], callability.ToolFacts{
					ConfigDenied: callability.Bool(place % 3), Approval: approval, CallerRefuses: place == 5,
					Annotations: annotations[place%4], Labels: label,
				}))
			}
		}
	}
	return found
}

func TestColumnsAreAnsweredAsToolsAre(t *testing.T) {
	examples, err := filepath.Glob(filepath.Join("..", "..", "..", "policy", "examples", "environments"))
	if err != nil || len(examples) == 0 {
		t.Skip("the examples are in a checkout of the repository alone")
	}
	for _, directory := range []string{policyDirectory(t), withRules(t, examples[0])} {
		client := dial(t, serve(t, directory, "127.0.0.1:0").address)
		agent := callability.NewAgent(callability.AgentFacts{Name: "assistant", Labels: callability.NoLabels})
		tools := combinations()
		var columns *remote.FactColumns
		for range 2 {
			answers, built, err := client.CheckByColumns(t.Context(), columns, agent, tools)
			if err != nil {
				t.Fatal(err)
			}
			columns = built
			for place, tool := range tools {
				wanted, err := client.Check(t.Context(), agent, tool)
				if err != nil {
					t.Fatal(err)
				}
				wanted.Words = callability.Words{}
				answers[place].Words = callability.Words{}
				if !reflect.DeepEqual(answers[place], wanted) {
					t.Fatalf("tool %d: found %+v, wanted %+v", place, answers[place], wanted)
				}
			}
		}
	}
}

// withRules is a copy of the shipped policy with the rules of an example.
func withRules(t *testing.T, example string) string {
	t.Helper()
	directory := policyDirectory(t)
	for _, name := range []string{"callability.yaml", "callability_test.yaml"} {
		text, err := os.ReadFile(filepath.Join(example, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(directory, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return directory
}

func TestColumnsAreBuiltAgainAfterAChangeOfThePolicy(t *testing.T) {
	directory := policyDirectory(t)
	client := dial(t, serve(t, directory, "127.0.0.1:0").address)
	answers, columns, err := client.CheckByColumns(t.Context(), nil, nil, tools())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(directory, "callability.yaml")
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(string(text)+"# edited\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	before := columns.Request(nil, tools()).GetRevision()
	service := v1.NewCallabilityServiceClient(client)
	waitUntil(t, "a refusal of the old revision", func() bool {
		_, err := service.CheckColumns(t.Context(), columns.Request(nil, tools()))
		return status.Code(err) == codes.FailedPrecondition && !strings.Contains(err.Error(), "has revision "+before)
	})
	again, rebuilt, err := client.CheckByColumns(t.Context(), columns, nil, tools())
	if err != nil {
		t.Fatal(err)
	}
	if rebuilt == columns || !slices.EqualFunc(answers, again, func(a, b callability.Answer) bool { return reflect.DeepEqual(a, b) }) {
		t.Errorf("found %+v, wanted %+v by other columns", again, answers)
	}
}

func TestAResponseOfAnotherLengthIsNoAnswer(t *testing.T) {
	verdicts := []*v1.ToolVerdict{{Rule: "open"}}
	for _, bytes := range [][]byte{{}, {0, 0, 0}, {0, 1}} {
		if _, err := remote.Verdicts(&v1.CheckColumnsResponse{Verdicts: bytes, DistinctVerdicts: verdicts}, 2); err == nil {
			t.Errorf("found no error for %v", bytes)
		}
	}
}
