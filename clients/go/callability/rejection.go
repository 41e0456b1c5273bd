package callability

import (
	"slices"
	"strings"

	"github.com/callability/callability/clients/go/internal/wording"
)

// Rejection is what an agent reads that called a tool, and whether there is anything to say: not about a callable tool,
// which the proxy calls. [Inventory.Decide] does this by the name that the agent gave.
func (a Adapter) Rejection(item Item) (Result, bool) {
	if item.Answer.Status == StatusCallable {
		return Result{}, false
	}
	return *a.rejection(&item), true
}

func (a Adapter) rejection(item *Item) *Result {
	answer, server, tool := &item.Answer, item.Server, item.Tool
	status := answer.Status
	known := status.known()
	if !known {
		status = StatusDisabledUnknown
	}
	refusal := wording.OneLine(item.Refusal)
	refused := known && status == StatusDisabledUnknown && !answer.Undetermined && refusal != ""
	stays := a.FactsFromConfig && slices.ContainsFunc(answer.Unread, isDeclared)
	retry := retryNames[RetryNever]
	if status == StatusDisabledUnknown && !refused && !stays && answer.Retry != RetryNever {
		retry = retryNames[RetryLater]
	}
	lifted := liftedByOf(status)
	names := map[string]string{"server": server, "tool": tool}
	words := wording.Filling{Names: names, Own: a.Phrases}
	template := wording.Unexplained
	if known && answer.Words.Status == status && answer.Words.Rejection != "" {
		template, words.Declared = answer.Words.Rejection, answer.Words.Phrases
	}
	parts := []string{"Not called: " + status.String() + ", by policy."}
	switch {
	case refused:
		parts = []string{"Not called: disabled_unknown.", refusal}
	case status == StatusDisabledUnknown:
		parts = []string{"Not called: disabled_unknown.",
			"The reason could not be determined; held back rather than guessed.", unreadSentence(answer.Unread), words.Fill(template)}
	default:
		parts = append(parts, words.Fill(template))
	}
	parts = append(parts, thenLifted(answer.Remaining, wording.Filling{Names: names, Own: a.Phrases})...)
	parts = append(parts, whoLiftsAll(lifted, answer.Remaining), whenToRetry(lifted, retry))
	if !a.NoDiscovery {
		parts = append(parts, "See `"+a.discoveryTool()+"` with `include_disabled: true`.")
	}
	var content wording.Object
	content.Text("status", status.String())
	content.Text("server", wording.Cut(server, wording.MaxShownName))
	content.Text("tool", wording.Cut(tool, wording.MaxShownName))
	content.Text("lifted_by", lifted.String())
	content.Text("retry", retry)
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	return &Result{Text: strings.Join(parts, " "), StructuredContent: content.JSON(), IsError: true}
}

func liftedByOf(status Status) LiftedBy {
	switch status {
	case StatusDisabledByConfig:
		return LiftedByOperator
	case StatusDisabledUnknown:
		return LiftedByUndetermined
	}
	return LiftedByUser
}

var whoLifts = map[LiftedBy]string{
	LiftedByUser:         "The user can lift this.",
	LiftedByOperator:     "Only the operator can lift this.",
	LiftedByUndetermined: "Who can lift this is unknown.",
}

func whenToRetry(lifted LiftedBy, retry string) string {
	switch {
	case retry == retryNames[RetryLater]:
		return "A later retry may succeed."
	case lifted == LiftedByUndetermined:
		return "Retrying does not help."
	}
	return "Do not retry until then."
}

// reservedNames are what the name of a fact that a rule file declares does not begin with.
var reservedNames = []string{"agent", "annotations", "approval", "callability", "caller", "column", "columns", "enable", "load",
	"server", "tool"}

// isDeclared reports whether a fact is one that a rule file declares: words of `[a-z0-9_]` that begin with a letter, and dots
// between them.
func isDeclared(fact string) bool {
	words := strings.Split(fact, ".")
	for _, word := range words {
		if word == "" || word[0] < 'a' || 'z' < word[0] || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
			return false
		}
	}
	return len(words) > 1 && len(fact) <= wording.MaxShownName && !slices.Contains(reservedNames, words[0])
}

// unreadSentence names the kinds of the facts that could not be read, and not the facts: an agent learns no label's key.
// A fact that the policy declares has no kind, so that its name is given.
func unreadSentence(facts []string) string {
	if len(facts) == 0 {
		return ""
	}
	return "Could not be read: " + unreadKinds(facts) + "."
}

func unreadKinds(facts []string) string {
	var kinds []string
	for _, fact := range facts {
		if kind := kindOfFact(fact); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return strings.Join(kinds, ", ")
}

func kindOfFact(fact string) string {
	if isDeclared(fact) {
		return "the fact `" + fact + "`"
	}
	switch fact {
	case "server.enabled", "server.quarantined":
		return "the server's state"
	case "tool.config_denied":
		return "the operator's config"
	case "agent.name":
		return "the agent's name"
	}
	for _, each := range [...][2]string{
		{"approval.", "the tool's approval"},
		{"annotations.", "the tool's annotations"},
		{"server.label.", "a label set by the operator"},
		{"tool.label.", "a label set by the operator"},
		{"agent.label.", "a label set by the operator"},
	} {
		if strings.HasPrefix(fact, each[0]) {
			return each[1]
		}
	}
	return "another fact that the policy reads"
}

// UnknownTool is what an agent reads that called a tool that does not exist for it, with near names among the callable
// ones. A tool out of the agent's scope gets the same answer.
func (a Adapter) UnknownTool(name string, callable []string) Result {
	hint := ""
	if near := nearest(name, callable); len(near) > 0 {
		hint = " Similar names: " + wording.QuotedAll(near) + "."
	}
	if !a.NoDiscovery {
		hint += " Find tools with `" + a.discoveryTool() + "`."
	}
	return errorResult("Not called: there is no tool " + wording.Quoted(name) + "." + hint)
}

// Unavailable is what an agent reads while there is no policy to decide by. It is no status.
func Unavailable(reason string) Result {
	return errorResult("Not done: " + wording.Sentence(reason, "the policy service gave no answer") + ". Nothing was shown or called;" +
		" this says nothing about any tool. A later retry may succeed. If it does not, tell the user that the operator of this" +
		" proxy must look into it.")
}
