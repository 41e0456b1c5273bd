package callability_test

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/internal/contractjson"
)

type matrix struct {
	States   map[string]map[string]map[string]map[string]any
	Verdicts []row
	Withheld []row
	Later    []row
}

type row struct {
	When         map[string][]string
	Status       string
	Rule         string
	Undetermined bool
	Unread       []string
	WithholdText bool
}

func (r row) matches(combination map[string]string) bool {
	for column, states := range r.When {
		if !slices.Contains(states, combination[column]) {
			return false
		}
	}
	return true
}

// TestTheShippedPolicyDecidesEveryCombinationAsTheHandCheckedTableSays replays all 756 combinations.
func TestTheShippedPolicyDecidesEveryCombinationAsTheHandCheckedTableSays(t *testing.T) {
	text, err := os.ReadFile(vectors(t, "matrix", "patterns.json"))
	if err != nil {
		t.Fatal(err)
	}
	var table matrix
	if err := json.Unmarshal(text, &table); err != nil {
		t.Fatal(err)
	}
	policy := bundled(t, "shipped.bundle")
	combinations := []map[string]string{{}}
	for column, states := range table.States {
		var longer []map[string]string
		for _, each := range combinations {
			for state := range states {
				one := maps.Clone(each)
				one[column] = state
				longer = append(longer, one)
			}
		}
		combinations = longer
	}
	if len(combinations) != 756 {
		t.Fatalf("found %d combinations, wanted 756", len(combinations))
	}
	for _, combination := range combinations {
		agent, tool := table.request(t, combination).Handles()
		verdict := policy.Decide(agent, tool)
		wanted, withheld := only(t, table.Verdicts, combination), only(t, table.Withheld, combination)
		if wantsLater := slices.ContainsFunc(table.Later, func(each row) bool { return each.matches(combination) }); wanted.Undetermined {
			retry := map[bool]callability.Retry{true: callability.RetryLater, false: callability.RetryNever}[wantsLater]
			if verdict.Retry() != retry {
				t.Errorf("%v: found retry %s, wanted %s", combination, verdict.Retry(), retry)
			}
		}
		status := "TOOL_STATUS_" + strings.ToUpper(verdict.Status().String())
		if status != wanted.Status || verdict.Rule() != wanted.Rule || verdict.Undetermined() != wanted.Undetermined ||
			!slices.Equal(verdict.Unread(), wanted.Unread) || verdict.WithholdText() != withheld.WithholdText {
			t.Errorf("%v: found %s by %s, undetermined %t, unread %v, withheld %t, wanted %+v and %+v", combination, status,
				verdict.Rule(), verdict.Undetermined(), verdict.Unread(), verdict.WithholdText(), wanted, withheld)
		}
		if verdict.Err() != nil || verdict.Revision() != policy.Revision() {
			t.Errorf("%v: found error %v and revision %s", combination, verdict.Err(), verdict.Revision())
		}
	}
}

func only(t *testing.T, rows []row, combination map[string]string) row {
	t.Helper()
	found := slices.DeleteFunc(slices.Clone(rows), func(each row) bool { return !each.matches(combination) })
	if len(found) != 1 {
		t.Fatalf("%v: found %d rows, wanted 1", combination, len(found))
	}
	return found[0]
}

func (m matrix) request(t *testing.T, combination map[string]string) *contractjson.Request {
	t.Helper()
	request := map[string]any{"server": "git", "tool": "git_status"}
	for column, state := range combination {
		for group, facts := range m.States[column][state] {
			merged, _ := request[group].(map[string]any)
			if merged == nil {
				merged = map[string]any{}
				request[group] = merged
			}
			maps.Copy(merged, facts)
		}
	}
	text, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := contractjson.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}
