package callability_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/internal/contractjson"
	"github.com/callability/callability/clients/go/outcome"
)

// An outcomeVector is a golden vector about a load or an enable.
type outcomeVector struct {
	Name, Call string
	Request    json.RawMessage
	Reply      struct {
		Verdict struct {
			Status, Rule, LiftedBy, Retry, Entry string
			Undetermined, Error                  bool
			ToolsChanged                         int
		}
		Words *wordsJSON
	}
}

func outcomeVectors(t *testing.T, name string) []outcomeVector {
	t.Helper()
	text, err := os.ReadFile(vectors(t, name))
	if err != nil {
		t.Fatal(err)
	}
	var found []outcomeVector
	if err := json.Unmarshal(text, &found); err != nil || len(found) < 20 {
		t.Fatalf("found %d vectors and %v", len(found), err)
	}
	return found
}

func (v outcomeVector) liftedBy() callability.LiftedBy {
	return callability.LiftedBy(enum(v.Reply.Verdict.LiftedBy, "LIFTED_BY_", "unspecified", "user", "operator", "undetermined", "none"))
}

func (v outcomeVector) retry() callability.Retry {
	return callability.Retry(enum(v.Reply.Verdict.Retry, "RETRY_", "unspecified", "never", "later", "now"))
}

func TestLoadsAreClassifiedAsTheVectorsSay(t *testing.T) {
	policy, texts := bundled(t, "shipped.bundle"), 0
	for _, each := range outcomeVectors(t, "load_outcome.json") {
		request, err := contractjson.ParseLoad(each.Request)
		if err != nil {
			t.Fatal(err)
		}
		if request.ErrorText != "" {
			// A Go proxy has errors to look at, and not only their text, which a service reads.
			texts++
			continue
		}
		found, wanted := outcome.ClassifyLoad(policy, request.Load()), each.Reply.Verdict
		if found.Status != loadStatus(wanted.Status) || found.Rule != wanted.Rule || found.Undetermined != wanted.Undetermined ||
			found.LiftedBy != each.liftedBy() || found.Retry != each.retry() {
			t.Errorf("%s: found %+v, wanted %+v", each.Name, found, wanted)
		}
		if words := each.Reply.Words; words == nil && found.Message != "" || words != nil && found.WordsStatus != loadStatus(words.Status) {
			t.Errorf("%s: found the words %q, wanted %+v", each.Name, found.Message, words)
		}
	}
	if texts != 6 {
		t.Errorf("found %d vectors with the text of an error, wanted 6", texts)
	}
}

func TestEnablesAreClassifiedAsTheVectorsSay(t *testing.T) {
	policy := bundled(t, "shipped.bundle")
	for _, each := range outcomeVectors(t, "enable_outcome.json") {
		request, err := contractjson.ParseEnable(each.Request)
		if err != nil {
			t.Fatal(err)
		}
		found, wanted := outcome.ClassifyEnable(policy, request.Enable()), each.Reply.Verdict
		entry := outcome.EnableEntry(enum(wanted.Entry, "ENABLE_ENTRY_", "unspecified", "none", "kept", "rolled_back"))
		if found.Status != enableStatus(wanted.Status) || found.Rule != wanted.Rule || found.Undetermined != wanted.Undetermined ||
			found.LiftedBy != each.liftedBy() || found.Retry != each.retry() || found.Error != wanted.Error || found.Entry != entry ||
			found.ToolsChanged != (wanted.ToolsChanged == 1) {
			t.Errorf("%s: found %+v, wanted %+v", each.Name, found, wanted)
		}
		if words := each.Reply.Words; words == nil && found.Message != "" || words != nil && found.WordsStatus != enableStatus(words.Status) {
			t.Errorf("%s: found the words %q, wanted %+v", each.Name, found.Message, words)
		}
	}
}

func TestAnOutcomeThatNothingDecidesFailsClosed(t *testing.T) {
	for name, policy := range map[string]*callability.Policy{"nil": nil, "zero": new(callability.Policy)} {
		if found := outcome.ClassifyLoad(policy, outcome.LoadFacts{Failure: outcome.FailureNone}); found != (outcome.LoadAnswer{}) {
			t.Errorf("%s: found %+v", name, found)
		}
		enabled := outcome.EnableFacts{Known: callability.True, Ended: outcome.EndConnected}
		if found := outcome.ClassifyEnable(policy, enabled); found != (outcome.EnableAnswer{}) {
			t.Errorf("%s: found %+v", name, found)
		}
	}
	policy := bundled(t, "shipped.bundle")
	if found := outcome.ClassifyLoad(policy, outcome.LoadFacts{}); found.Status != outcome.LoadPermanent || !found.Undetermined {
		t.Errorf("found %+v of a load of which nothing is known", found)
	}
	if found := outcome.ClassifyEnable(policy, outcome.EnableFacts{}); found.Status != outcome.EnableConnectFailed || !found.Undetermined {
		t.Errorf("found %+v of an enable of which nothing is known", found)
	}
	later := outcome.LoadFacts{Phase: 99, Failure: 99}
	if found := outcome.ClassifyLoad(policy, later); found != outcome.ClassifyLoad(policy, outcome.LoadFacts{}) {
		t.Errorf("found %+v of a failure of a later version", found)
	}
	result := outcome.EnableResult(callability.Adapter{}, outcome.EnableAnswer{}, "git", outcome.EnableDetails{})
	if !result.IsError {
		t.Errorf("found %s for no answer, wanted an error", result.JSON())
	}
}
