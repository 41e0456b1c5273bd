package callability_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/internal/wording"
	"github.com/callability/callability/clients/go/outcome"
)

// orderedLocks reads an object whose order matters.
func orderedLocks(t *testing.T, text json.RawMessage) []callability.Lock {
	t.Helper()
	if text == nil {
		return nil
	}
	found := []callability.Lock{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	if _, err := decoder.Token(); err != nil {
		t.Fatal(err)
	}
	for decoder.More() {
		var status, remedy string
		token, err := decoder.Token()
		if err == nil {
			status = token.(string)
			err = decoder.Decode(&remedy)
		}
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, callability.Lock{Status: toolStatus("TOOL_STATUS_" + strings.ToUpper(status)), Text: remedy})
	}
	return found
}

func (v vectorJSON) enableResult(t *testing.T) callability.Result {
	t.Helper()
	more := outcome.EnableDetails{Variables: v.Variables, Locks: orderedLocks(t, v.Locks), Reason: v.Reason}
	if v.Load != nil {
		load := v.Load.load()
		more.Load = &load
	}
	return outcome.EnableResult(callability.Adapter{Phrases: v.Phrases}, v.Response.enable(), v.Server, more)
}

func (v vectorJSON) arguments(t *testing.T) string {
	t.Helper()
	found, err := callability.Adapter{}.Arguments([]byte(v.Arguments))
	var invalid *callability.InvalidArgument
	if errors.As(err, &invalid) {
		return string(invalid.Result().JSON())
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(struct {
		Query           string `json:"query"`
		Limit           int    `json:"limit"`
		IncludeDisabled bool   `json:"include_disabled"`
	}{found.Query, found.Limit, found.IncludeDisabled}); err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer(`\u2028`, "\u2028").Replace(strings.TrimSpace(out.String()))
}

func (v vectorJSON) discovery(t *testing.T, judgement judgementJSON) string {
	t.Helper()
	result, err := judgement.judgement(t, v.Phrases).Discovery(callability.Discovery{
		Query: v.Query, Limit: v.Limit, IncludeDisabled: v.IncludeDisabled, Found: v.Found, FoundLocked: v.FoundLocked,
		NotLoaded: v.NotLoaded,
		Text: func(name string) (callability.ToolText, bool) {
			text, ok := v.Texts[name]
			found := callability.ToolText{Description: text.Description}
			if text.InputSchema != nil {
				found.InputSchema = json.RawMessage(*text.InputSchema)
			}
			if text.Annotations != nil {
				found.Annotations = json.RawMessage(*text.Annotations)
			}
			return found, ok
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(result.JSON())
}

// TestTheAdapterWritesTheBytesOfEveryVector replays all vectors of docs/adapter.md.
func TestTheAdapterWritesTheBytesOfEveryVector(t *testing.T) {
	functions := map[string]func(*testing.T, vectorJSON, judgementJSON) string{
		"arguments": func(t *testing.T, v vectorJSON, _ judgementJSON) string { return v.arguments(t) },
		"counts": func(t *testing.T, _ vectorJSON, j judgementJSON) string {
			return string(j.judgement(t, nil).Counts())
		},
		"discovery":     func(t *testing.T, v vectorJSON, j judgementJSON) string { return v.discovery(t, j) },
		"enable_result": func(t *testing.T, v vectorJSON, _ judgementJSON) string { return string(v.enableResult(t).JSON()) },
		"load_messages": func(_ *testing.T, v vectorJSON, _ judgementJSON) string {
			answers := map[string]outcome.LoadAnswer{}
			for name, reply := range v.Responses {
				answers[name] = reply.load()
			}
			var found wording.Object
			for _, each := range outcome.LoadMessages(callability.Adapter{Phrases: v.Phrases}, answers, v.Reasons) {
				found.Text(each.Status.String(), each.Text)
			}
			return string(found.JSON())
		},
		"near_names": unknownTool,
		"rejection": func(_ *testing.T, v vectorJSON, _ judgementJSON) string {
			adapter := callability.Adapter{
				Phrases: v.Phrases, DiscoveryTool: v.DiscoveryTool, FactsFromConfig: v.FactsFromConfig,
			}
			item := callability.Item{Server: v.Server, Tool: v.Tool, Answer: v.Response.answer(), Refusal: v.Refusal}
			if result, ok := adapter.Rejection(item); ok {
				return string(result.JSON())
			}
			return ""
		},
		"unavailable": func(_ *testing.T, v vectorJSON, _ judgementJSON) string {
			return string(callability.Unavailable(v.Reason).JSON())
		},
		"unknown_tool": unknownTool,
	}
	paths, err := os.ReadDir(vectors(t, "adapter"))
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, path := range paths {
		name, isJSON := strings.CutSuffix(path.Name(), ".json")
		if !isJSON {
			continue
		}
		function := functions[name]
		if function == nil {
			t.Errorf("no function replays %s", path.Name())
			continue
		}
		text, err := os.ReadFile(vectors(t, "adapter", path.Name()))
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Judgements map[string]judgementJSON
			Vectors    []vectorJSON
		}
		if err := json.Unmarshal(text, &file); err != nil {
			t.Fatal(err)
		}
		for _, each := range file.Vectors {
			count++
			t.Run(name+"/"+each.Name, func(t *testing.T) {
				if found := function(t, each, file.Judgements[each.Judgement]); found != each.Result {
					t.Errorf("\nfound  %s\nwanted %s", found, each.Result)
				}
			})
		}
	}
	if count < 300 {
		t.Errorf("found %d vectors, wanted at least 300", count)
	}
}

func unknownTool(_ *testing.T, v vectorJSON, _ judgementJSON) string {
	return string(callability.Adapter{DiscoveryTool: v.DiscoveryTool}.UnknownTool(v.Tool, v.Names).JSON())
}
