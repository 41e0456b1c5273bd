// Replay answers requests from a bundle, so that another implementation can compare: one JSON object a line on standard
// input, and one on standard output. An answer has the numbers of the contract in the place of its names.
//
//	go run ./internal/replay policy.bundle ExplainTool < requests > answers
//
// The call is ExplainTool, ClassifyLoad or ClassifyEnable. With a directory behind it, each decision is recorded there; those
// of ExplainTool as decisions about calls.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/internal/contractjson"
	"github.com/callability/callability/clients/go/outcome"
	"github.com/callability/callability/clients/go/records"
)

type answer struct {
	Status       uint8      `json:"status"`
	Rule         string     `json:"rule"`
	Undetermined bool       `json:"undetermined"`
	LiftedBy     uint8      `json:"lifted_by"`
	Retry        uint8      `json:"retry"`
	Withheld     bool       `json:"withhold_text"`
	Unread       []string   `json:"unread"`
	Words        []any      `json:"words"`
	Facts        [][]string `json:"facts"`
	Trials       []any      `json:"trials"`
	Steps        []any      `json:"steps"`
	End          uint8      `json:"end"`
	FindOut      []string   `json:"find_out"`
	Remaining    []any      `json:"remaining"`
}

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string, in io.Reader, out io.Writer) (err error) {
	if len(arguments) < 2 || len(arguments) > 3 || calls[arguments[1]] == nil {
		return errors.New("usage: replay BUNDLE ExplainTool|ClassifyLoad|ClassifyEnable [DIRECTORY] < requests")
	}
	if len(arguments) == 3 {
		if recorder, err = records.Open(arguments[2], records.Options{All: true}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, recorder.Close()) }()
	}
	policy, err := callability.ReadPolicyFile(arguments[0])
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	buffered := bufio.NewWriter(out)
	encoder := json.NewEncoder(buffered)
	for lines.Scan() {
		answer, err := calls[arguments[1]](policy, lines.Bytes())
		if err != nil {
			return fmt.Errorf("%s: %w", lines.Bytes(), err)
		}
		if err := encoder.Encode(answer); err != nil {
			return err
		}
	}
	return errors.Join(lines.Err(), buffered.Flush())
}

// recorder is nil unless records are wanted.
var recorder *records.Recorder

var calls = map[string]func(*callability.Policy, []byte) (any, error){
	"ExplainTool": func(policy *callability.Policy, line []byte) (any, error) {
		request, err := contractjson.Parse(line)
		if err != nil {
			return nil, err
		}
		agent, tool := request.Handles()
		if recorder != nil {
			recorder.Record(context.Background(), callability.DecidedCall{
				Agent: agent, Server: tool.Server().Name(), Tool: tool.Name(), Judged: tool, Verdict: policy.Decide(agent, tool),
			})
		}
		explanation, err := policy.Explain(agent, tool)
		return answerOf(explanation), err
	},
	"ClassifyLoad": func(policy *callability.Policy, line []byte) (any, error) {
		request, err := contractjson.ParseLoad(line)
		if err != nil {
			return nil, err
		}
		answer := outcome.ClassifyLoad(policy, request.Load())
		if recorder != nil {
			recorder.RecordLoad(policy, "s", request.Load(), answer)
		}
		return map[string]any{
			"Status": uint8(answer.Status), "Rule": answer.Rule, "Undetermined": answer.Undetermined,
			"LiftedBy": uint8(answer.LiftedBy), "Retry": uint8(answer.Retry),
			"WordsStatus": uint8(answer.WordsStatus), "Message": answer.Message,
		}, nil
	},
	"ClassifyEnable": func(policy *callability.Policy, line []byte) (any, error) {
		request, err := contractjson.ParseEnable(line)
		if err != nil {
			return nil, err
		}
		answer := outcome.ClassifyEnable(policy, request.Enable())
		if recorder != nil {
			recorder.RecordEnable(policy, nil, "s", request.Enable(), answer)
		}
		return map[string]any{
			"Status": uint8(answer.Status), "Rule": answer.Rule, "Undetermined": answer.Undetermined,
			"LiftedBy": uint8(answer.LiftedBy), "Retry": uint8(answer.Retry), "Entry": uint8(answer.Entry),
			"Error": answer.Error, "ToolsChanged": answer.ToolsChanged,
			"WordsStatus": uint8(answer.WordsStatus), "Message": answer.Message,
		}, nil
	},
}

func answerOf(e callability.Explanation) answer {
	verdict, words := e.Verdict, e.Verdict.Words()
	found := answer{
		Status: uint8(verdict.Status()), Rule: verdict.Rule(), Undetermined: verdict.Undetermined(), LiftedBy: uint8(verdict.LiftedBy()),
		Retry: uint8(verdict.Retry()), Withheld: verdict.WithholdText(), Unread: verdict.Unread(), Facts: pairs(e.Facts),
		Words: []any{uint8(words.Status), words.Rule, words.Remediation, words.Rejection},
		Steps: steps(e.Path), End: uint8(e.Path.End), FindOut: e.Path.FindOut,
	}
	if remaining := verdict.Remaining(); len(remaining.Steps) > 0 || remaining.End != callability.PathEndUnspecified {
		found.Remaining = []any{steps(remaining), uint8(remaining.End), append([]string{}, remaining.FindOut...)}
	}
	for _, trial := range e.Trials {
		found.Trials = append(found.Trials, []any{trial.Rule, uint8(trial.Status), uint8(trial.Truth), pairs(trial.Reads), trial.Why})
	}
	return found
}

func steps(path callability.Path) []any {
	found := []any{}
	for _, step := range path.Steps {
		changes := []any{}
		for _, c := range step.Changes {
			changes = append(changes, []any{c.Fact, c.Current, c.Wanted, uint8(c.ChangedBy), c.Action, c.Phrase})
		}
		found = append(found, []any{step.Rule, uint8(step.Status), changes})
	}
	return found
}

func pairs(values []callability.FactValue) [][]string {
	found := [][]string{}
	for _, each := range values {
		found = append(found, []string{each.Fact, each.Value})
	}
	return found
}
