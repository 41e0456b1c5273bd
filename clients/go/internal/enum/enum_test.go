package enum_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/outcome"
)

// words writes every value of an enum up to the last one as JSON, reads it again, and then tries what is no word.
func words[T interface {
	~uint8
	fmt.Stringer
}](t *testing.T, last T, kind string) {
	t.Helper()
	seen := map[string]bool{}
	for value := T(0); value <= last; value++ {
		text, err := json.Marshal(map[string]T{"value": value})
		if wanted := fmt.Sprintf(`{"value":%q}`, value); err != nil || string(text) != wanted || seen[value.String()] {
			t.Errorf("found %s and %v, wanted %s, once", text, err, wanted)
		}
		seen[value.String()] = true
		var again struct{ Value T }
		if err := json.Unmarshal(text, &again); err != nil || again.Value != value {
			t.Errorf("%s: found %s and %v", text, again.Value, err)
		}
	}
	if found, wanted := T(99).String(), kind+"(99)"; found != wanted {
		t.Errorf("found %s, wanted %s", found, wanted)
	}
	for _, text := range []string{`"` + kind + `(99)"`, `""`, `"nothing"`} {
		if value := last; json.Unmarshal([]byte(text), &value) == nil || value != last {
			t.Errorf("%s: found %s", text, value)
		}
	}
}

func TestEveryEnumIsWrittenAndReadByItsWords(t *testing.T) {
	words(t, callability.StatusCallable, "Status")
	words(t, callability.LiftedByNone, "LiftedBy")
	words(t, callability.RetryNow, "Retry")
	words(t, callability.TruthUndetermined, "Truth")
	words(t, callability.PathEndFindOut, "PathEnd")
	words(t, callability.Neither, "Bool")
	words(t, callability.ApprovalOther, "ApprovalStatus")
	words(t, outcome.LoadPermanent, "LoadStatus")
	words(t, outcome.EnableConnectFailed, "EnableStatus")
	words(t, outcome.EntryRolledBack, "EnableEntry")
	words(t, outcome.PhaseList, "LoadPhase")
	words(t, outcome.FailureOther, "LoadFailure")
	words(t, outcome.CredentialsMissing, "EnableCredentials")
	words(t, outcome.AuthorizationUnanswered, "EnableAuthorization")
	words(t, outcome.EndFailed, "EnableEnd")
	end := callability.PathEndUnspecified
	if err := end.UnmarshalText([]byte(callability.PathEndLater.String())); err != nil || end != callability.PathEndLater {
		t.Errorf("found %s, %v", end, err)
	}
}

func TestAnEncoderWritesTheBytesOfAResultAndOfCounts(t *testing.T) {
	judgement := callability.Adapter{}.Judgement([]callability.Item{{Server: "git", Tool: "log"}})
	result := callability.Result{Text: "<a & b>", IsError: true}
	var found bytes.Buffer
	encoder := json.NewEncoder(&found)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode([]any{result, judgement.CountsByServer()[0], judgement.Counts()}); err != nil {
		t.Fatal(err)
	}
	wanted := fmt.Sprintf("[%s,%s,%s]\n", result.JSON(), judgement.CountsByServer()[0].JSON(), judgement.Counts())
	if found.String() != wanted {
		t.Errorf("found %swanted %s", found.String(), wanted)
	}
}
