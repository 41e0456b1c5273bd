package callability_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/callability/callability/clients/go"
)

// The messages of the contract in its own JSON, as far as the adapter looks at them.
type (
	number      any
	verdictJSON struct {
		Status       number
		Rule         string
		Undetermined bool
		Retry        number
		WithholdText bool
		Unread       []string
	}
	wordsJSON struct {
		Status                       number
		Rule, Remediation, Rejection string
		Message                      string
		Phrases                      map[string]string
	}
	replyJSON struct {
		Verdict *verdictJSON
		Words   *wordsJSON
	}
	judgementJSON struct {
		Servers []struct {
			Name  string
			Tools []string
		}
		Response struct {
			Servers []struct{ Results []replyJSON }
			Words   []wordsJSON
		}
		Visible   *[]string
		Refusals  map[string]string
		Separator string
	}
	vectorJSON struct {
		Name, Judgement, Query, Result, Server, Tool, Reason, Refusal, Arguments string
		Found                                                                    []string
		FoundLocked                                                              []string `json:"found_locked"`
		NotLoaded                                                                []string `json:"not_loaded"`
		IncludeDisabled                                                          bool     `json:"include_disabled"`
		DiscoveryTool                                                            string   `json:"discovery_tool"`
		FactsFromConfig                                                          bool     `json:"facts_from_config"`
		Texts                                                                    map[string]struct {
			Description              *string
			InputSchema, Annotations *string
		}
		Phrases          map[string]string
		Limit            int
		Response, Load   *replyJSON
		Responses        map[string]replyJSON
		Reasons          map[string]string
		Variables, Names []string
		Locks            json.RawMessage
	}
)

// enum returns the number of a value, 255 for one of a later version.
func enum(value number, prefix string, names ...string) uint8 {
	switch value := value.(type) {
	case nil:
		return 0
	case string:
		return uint8(slices.Index(names, strings.ToLower(strings.TrimPrefix(value, prefix))))
	}
	return 255
}

func names[T interface{ String() string }](every ...T) []string {
	var found []string
	for _, each := range every {
		found = append(found, each.String())
	}
	return found
}

func toolStatus(value number) callability.Status {
	return callability.Status(enum(value, "TOOL_STATUS_", names(callability.StatusUnspecified, callability.ServerDisabled,
		callability.DisabledByConfig, callability.ServerQuarantined, callability.DisabledByUser, callability.PendingApproval,
		callability.DisabledUnknown, callability.Callable)...))
}

func loadStatus(value number) callability.LoadStatus {
	return callability.LoadStatus(enum(value, "LOAD_STATUS_", names(callability.LoadUnspecified, callability.LoadAvailable,
		callability.LoadTransient, callability.LoadDenied, callability.LoadPermanent)...))
}

func enableStatus(value number) callability.EnableStatus {
	return callability.EnableStatus(enum(value, "ENABLE_STATUS_", names(callability.EnableUnspecified,
		callability.UnknownServer, callability.AlreadyEnabled, callability.MissingCredentials, callability.Enabled,
		callability.Declined, callability.AuthorizationRequired, callability.Cancelled, callability.ConnectFailed)...))
}

func (r *replyJSON) answer() callability.Answer {
	var found callability.Answer
	if r == nil {
		return found
	}
	if v := r.Verdict; v != nil {
		found = callability.Answer{
			Status: toolStatus(v.Status), Rule: v.Rule, Undetermined: v.Undetermined, WithholdText: v.WithholdText, Unread: v.Unread,
			Retry: callability.Retry(enum(v.Retry, "RETRY_", "unspecified", "never", "later", "now")),
		}
	}
	if r.Words != nil {
		found.Words = r.Words.words()
	}
	return found
}

func (w *wordsJSON) words() callability.Words {
	return callability.Words{
		Status: toolStatus(w.Status), Rule: w.Rule, Remediation: w.Remediation, Rejection: w.Rejection, Phrases: w.Phrases,
	}
}

func (r *replyJSON) load() callability.LoadAnswer {
	var found callability.LoadAnswer
	if r.Verdict != nil {
		found.Status = loadStatus(r.Verdict.Status)
	}
	if r.Words != nil {
		found.WordsStatus, found.Message = loadStatus(r.Words.Status), r.Words.Message
	}
	return found
}

func (r *replyJSON) enable() callability.EnableAnswer {
	var found callability.EnableAnswer
	if r.Verdict != nil {
		found.Status = enableStatus(r.Verdict.Status)
	}
	if r.Words != nil {
		found.WordsStatus, found.Message = enableStatus(r.Words.Status), r.Words.Message
	}
	return found
}

func (j judgementJSON) judgement(t *testing.T, phrases map[string]string) *callability.Judgement {
	t.Helper()
	adapter := callability.Adapter{Phrases: phrases, Separator: j.Separator}
	var items []callability.Item
	for s, server := range j.Servers {
		if j.Visible != nil && !slices.Contains(*j.Visible, server.Name) {
			continue
		}
		for place, tool := range server.Tools {
			items = append(items, callability.Item{
				Server: server.Name, Tool: tool, Answer: j.Response.Servers[s].Results[place].answer(),
				Refusal: j.Refusals[adapter.Qualified(server.Name, tool)],
			})
		}
	}
	var words []callability.Words
	for _, each := range j.Response.Words {
		words = append(words, each.words())
	}
	found, err := adapter.Judgement(items, words...)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

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
	more := callability.EnableResult{Variables: v.Variables, Locks: orderedLocks(t, v.Locks), Reason: v.Reason}
	if v.Load != nil {
		load := v.Load.load()
		more.Load = &load
	}
	return callability.Adapter{Phrases: v.Phrases}.EnableResult(v.Response.enable(), v.Server, more)
}

func (v vectorJSON) arguments(t *testing.T) string {
	t.Helper()
	found, err := callability.CheckArguments([]byte(v.Arguments))
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
				found.InputSchema = []byte(*text.InputSchema)
			}
			if text.Annotations != nil {
				found.Annotations = []byte(*text.Annotations)
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
			answers := map[string]callability.LoadAnswer{}
			for name, reply := range v.Responses {
				answers[name] = reply.load()
			}
			return string(callability.LoadMessagesJSON(callability.Adapter{Phrases: v.Phrases}.LoadMessages(answers, v.Reasons)))
		},
		"near_names": unknownTool,
		"rejection": func(_ *testing.T, v vectorJSON, _ judgementJSON) string {
			adapter := callability.Adapter{
				Phrases: v.Phrases, DiscoveryTool: v.DiscoveryTool, FactsFromConfig: v.FactsFromConfig,
			}
			if result, ok := adapter.Rejection(v.Response.answer(), v.Server, v.Tool, v.Refusal); ok {
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
