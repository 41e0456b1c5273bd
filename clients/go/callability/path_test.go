package callability_test

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/internal/contractjson"
)

type pathStep struct {
	Rule    string
	Changes []string
}

type pathVector struct {
	Name, Policy string
	Request      json.RawMessage
	Steps        []pathStep
	End          string
	FindOut      []string `json:"find_out"`
}

// TestEveryPathIsThatOfItsVector explains the golden vectors of paths.
func TestEveryPathIsThatOfItsVector(t *testing.T) {
	text, err := os.ReadFile(vectors(t, "paths", "paths.json"))
	if err != nil {
		t.Fatal(err)
	}
	var every []pathVector
	if err := json.Unmarshal(text, &every); err != nil {
		t.Fatal(err)
	}
	for _, each := range every {
		t.Run(each.Name, func(t *testing.T) {
			found := each.path(t)
			steps := []pathStep{}
			for _, step := range found.Steps {
				changes := []string{}
				for _, c := range step.Changes {
					changes = append(changes, fmt.Sprintf("%s: %s to %s", c.Fact, c.Current, strings.Join(c.Wanted, " or ")))
				}
				steps = append(steps, pathStep{step.Rule, changes})
			}
			findOut := append([]string{}, found.FindOut...)
			if found.End.String() != each.End || !reflect.DeepEqual(steps, each.Steps) || !reflect.DeepEqual(findOut, each.FindOut) {
				t.Errorf("found %v, then %s %v", steps, found.End, findOut)
			}
		})
	}
}

func (v pathVector) path(t *testing.T) callability.Path {
	t.Helper()
	policy, err := callability.ReadPolicyFile(vectors(t, "paths", v.Policy+".bundle"))
	if err != nil {
		t.Fatal(err)
	}
	request, err := contractjson.Parse(v.Request)
	if err != nil {
		t.Fatal(err)
	}
	agent, tool := request.Handles()
	explanation, err := policy.Explain(agent, tool)
	if err != nil {
		t.Fatal(err)
	}
	return explanation.Path
}
