package callability_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/outcome"
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
	pathJSON struct {
		Steps []struct {
			Changes []struct {
				ChangedBy      number
				Action, Phrase string
			}
		}
		End     number
		FindOut []string
	}
	replyJSON struct {
		Verdict   *verdictJSON
		Words     *wordsJSON
		Remaining pathJSON
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
	return callability.Status(enum(value, "TOOL_STATUS_", names(callability.StatusUnspecified, callability.StatusServerDisabled,
		callability.StatusDisabledByConfig, callability.StatusServerQuarantined, callability.StatusDisabledByUser, callability.StatusPendingApproval,
		callability.StatusDisabledUnknown, callability.StatusCallable)...))
}

func loadStatus(value number) outcome.LoadStatus {
	return outcome.LoadStatus(enum(value, "LOAD_STATUS_", names(outcome.LoadUnspecified, outcome.LoadAvailable,
		outcome.LoadTransient, outcome.LoadDenied, outcome.LoadPermanent)...))
}

func enableStatus(value number) outcome.EnableStatus {
	return outcome.EnableStatus(enum(value, "ENABLE_STATUS_", names(outcome.EnableUnspecified,
		outcome.EnableUnknownServer, outcome.EnableAlreadyEnabled, outcome.EnableMissingCredentials, outcome.EnableEnabled,
		outcome.EnableDeclined, outcome.EnableAuthorizationRequired, outcome.EnableCancelled, outcome.EnableConnectFailed)...))
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
	found.Remaining = r.Remaining.path()
	return found
}

func (p pathJSON) path() callability.Path {
	found := callability.Path{
		End: callability.PathEnd(enum(p.End, "PATH_END_", "unspecified", "callable", "policy_change", "find_out")), FindOut: p.FindOut,
	}
	for _, step := range p.Steps {
		var changes []callability.Change
		for _, change := range step.Changes {
			owner := callability.LiftedBy(enum(change.ChangedBy, "LIFTED_BY_", "unspecified", "user", "operator", "undetermined", "none"))
			changes = append(changes, callability.Change{ChangedBy: owner, Action: change.Action, Phrase: change.Phrase})
		}
		found.Steps = append(found.Steps, callability.Step{Changes: changes})
	}
	return found
}

func (w *wordsJSON) words() callability.Words {
	return callability.Words{
		Status: toolStatus(w.Status), Rule: w.Rule, Remediation: w.Remediation, Rejection: w.Rejection, Phrases: w.Phrases,
	}
}

func (r *replyJSON) load() outcome.LoadAnswer {
	var found outcome.LoadAnswer
	if r.Verdict != nil {
		found.Status = loadStatus(r.Verdict.Status)
	}
	if r.Words != nil {
		found.WordsStatus, found.Message = loadStatus(r.Words.Status), r.Words.Message
	}
	return found
}

func (r *replyJSON) enable() outcome.EnableAnswer {
	var found outcome.EnableAnswer
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
	return adapter.Judgement(items, words...)
}
