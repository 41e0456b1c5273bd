// Package outcome decides how loads of tools and enables of servers ended, and writes what agents read about them. A proxy
// that only decides calls does not need it.
package outcome

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/internal/enum"
	"github.com/callability/callability/clients/go/internal/wording"
)

// A LoadStatus says how loading the tools of a server ended. Its numbers are those of the contract.
type LoadStatus uint8

// The statuses of a load.
const (
	// LoadUnspecified: there is no answer, or one of a later version.
	LoadUnspecified LoadStatus = iota
	// LoadAvailable: the tools are loaded.
	LoadAvailable
	// LoadTransient: the tools are not there yet, and a later attempt may succeed without help: the server is starting up.
	LoadTransient
	// LoadDenied: the server refused access by a decision. There is no further attempt.
	LoadDenied
	// LoadPermanent: the server needs attention: waiting does not help.
	LoadPermanent
)

var loadNames = [...]string{"unspecified", "available", "transient", "denied", "permanent"}

func (s LoadStatus) String() string { return enum.Name(s, loadNames[:]) }

// MarshalText returns the word that String returns.
func (s LoadStatus) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a word that String returns. A number of a later version is an error.
func (s *LoadStatus) UnmarshalText(text []byte) error { return enum.Parse(s, text, loadNames[:]) }

func (s LoadStatus) known() bool { return LoadAvailable <= s && s <= LoadPermanent }

// An EnableStatus says how an enable of a server ended. Its numbers are those of the contract.
type EnableStatus uint8

// The statuses of an enable.
const (
	// EnableUnspecified: there is no answer, or one of a later version.
	EnableUnspecified EnableStatus = iota
	// EnableUnknownServer: the catalog has no such server, or the agent may not see it.
	EnableUnknownServer
	// EnableAlreadyEnabled: the server was connected already.
	EnableAlreadyEnabled
	// EnableMissingCredentials: a variable that the server needs is not set. Nothing was connected.
	EnableMissingCredentials
	// EnableEnabled: the server is connected now, and its tools are listed.
	EnableEnabled
	// EnableDeclined: the user declined the authorization.
	EnableDeclined
	// EnableAuthorizationRequired: the server needs an authorization, and this session cannot show a dialog.
	EnableAuthorizationRequired
	// EnableCancelled: the attempt was cancelled.
	EnableCancelled
	// EnableConnectFailed: the connection failed, or its outcome could not be determined.
	EnableConnectFailed
)

var enableNames = [...]string{"unspecified", "unknown_server", "already_enabled", "missing_credentials", "enabled",
	"declined", "authorization_required", "cancelled", "connect_failed"}

func (s EnableStatus) String() string { return enum.Name(s, enableNames[:]) }

// MarshalText returns the word that String returns.
func (s EnableStatus) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a word that String returns. A number of a later version is an error.
func (s *EnableStatus) UnmarshalText(text []byte) error { return enum.Parse(s, text, enableNames[:]) }

func (s EnableStatus) known() bool { return EnableUnknownServer <= s && s <= EnableConnectFailed }

// An EnableEntry says what happens to the catalog entry that an enable uses. Its numbers are those of the contract.
type EnableEntry uint8

// What happens to the entry.
const (
	// EntryUnspecified: there is no answer, or one of a later version.
	EntryUnspecified EnableEntry = iota
	// EntryNone: there is none: no attempt was made.
	EntryNone
	// EntryKept: it stays.
	EntryKept
	// EntryRolledBack: it is removed, and what the attempt opened is closed.
	EntryRolledBack
)

var entryNames = [...]string{"unspecified", "none", "kept", "rolled_back"}

func (e EnableEntry) String() string { return enum.Name(e, entryNames[:]) }

// MarshalText returns the word that String returns.
func (e EnableEntry) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText reads a word that String returns. A number of a later version is an error.
func (e *EnableEntry) UnmarshalText(text []byte) error { return enum.Parse(e, text, entryNames[:]) }

// A LoadAnswer is what was decided about a load. The zero LoadAnswer counts as permanent.
type LoadAnswer struct {
	Status LoadStatus
	// Rule is the id of the rule that decided, or, if the answer is undetermined, of the rule that was reached.
	Rule string
	// Undetermined reports whether a rule was reached whose condition depends on an unknown fact.
	Undetermined bool
	LiftedBy     callability.LiftedBy
	Retry        callability.Retry
	// WordsStatus and Message are the words for the answer, and the status that they are for.
	WordsStatus LoadStatus
	Message     string
}

// An EnableAnswer is what was decided about an enable. The zero EnableAnswer counts as a failed connection.
type EnableAnswer struct {
	Status EnableStatus
	// Rule is the id of the rule that decided, or, if the answer is undetermined, of the rule that was reached.
	Rule string
	// Undetermined reports whether a rule was reached whose condition depends on an unknown fact.
	Undetermined bool
	LiftedBy     callability.LiftedBy
	Retry        callability.Retry
	// Entry is what happens to the catalog entry that the enable used.
	Entry EnableEntry
	// Error reports whether the answer to the agent is an error result.
	Error bool
	// ToolsChanged reports whether agents are notified that their tools have changed.
	ToolsChanged bool
	// WordsStatus and Message are the words for the answer, and the status that they are for.
	WordsStatus EnableStatus
	Message     string
}

// A LoadMessage is what to say about the servers whose loads have one status.
type LoadMessage struct {
	Status LoadStatus
	Text   string
}

const maxNamedServers = 5

// LoadMessages says which servers did not load, by status: for each server what was decided, and perhaps why it failed, in
// the proxy's own words. Statuses are in the order of the contract; those that are available are left out.
func LoadMessages(a callability.Adapter, answers map[string]LoadAnswer, reasons map[string]string) []LoadMessage {
	var found []LoadMessage
	names := make([]string, 0, len(answers))
	for name := range answers {
		names = append(names, name)
	}
	slices.Sort(names)
	for status := LoadTransient; status <= LoadPermanent; status++ {
		mine := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return answers[name].effective() != status })
		if len(mine) > 0 {
			found = append(found, LoadMessage{status, loadText(a, status, mine, answers, reasons)})
		}
	}
	return found
}

func (l LoadAnswer) effective() LoadStatus {
	if !l.Status.known() {
		return LoadPermanent
	}
	return l.Status
}

func (l LoadAnswer) template() string {
	if !l.Status.known() || l.WordsStatus != l.Status || l.Message == "" {
		return "Tools are not available from {servers}. Tell the user."
	}
	return l.Message
}

func loadText(
	a callability.Adapter, status LoadStatus, names []string, answers map[string]LoadAnswer, reasons map[string]string,
) string {
	var templates, texts []string
	groups := map[string]*struct{ named, others int }{}
	listed := map[string][]string{}
	for place, name := range names {
		template := answers[name].template()
		group := groups[template]
		if group == nil {
			group = &struct{ named, others int }{}
			groups[template] = group
			templates = append(templates, template)
		}
		if place >= maxNamedServers {
			group.others++
			continue
		}
		listed[template] = append(listed[template], wording.Quoted(name)+whyPermanent(status, reasons[name]))
	}
	for _, template := range templates {
		servers := serversText(listed[template], groups[template].others)
		if !strings.Contains(template, "{servers}") {
			template = "{servers}: " + template
		}
		fill := wording.Filling{Texts: map[string]string{"servers": servers}, Own: a.Phrases}
		texts = append(texts, fill.Fill(template))
	}
	return strings.Join(texts, " ")
}

func whyPermanent(status LoadStatus, reason string) string {
	if why := strings.TrimRight(wording.Shortened(wording.OneLine(reason)), "."); status == LoadPermanent && why != "" {
		return " (" + why + ")"
	}
	return ""
}

func serversText(named []string, others int) string {
	switch {
	case len(named) == 0 && others == 1:
		return "1 server"
	case len(named) == 0:
		return fmt.Sprintf("%d servers", others)
	case others > 0:
		return fmt.Sprintf("%s and %d more", strings.Join(named, ", "), others)
	}
	return strings.Join(named, ", ")
}

// EnableDetails are what else is known about an enable.
type EnableDetails struct {
	// Variables are the names of what is not set.
	Variables []string
	// Locks say why no tool of the server can be called: empty if it has no tool, and nil if that is not known.
	Locks []callability.Lock
	// Load is what was decided about the load that failed, if there was one.
	Load *LoadAnswer
	// Reason is why the connection failed, in the proxy's own words, safe to show.
	Reason string
}

// EnableResult is what an agent reads that enabled a server by a name.
func EnableResult(a callability.Adapter, answer EnableAnswer, server string, more EnableDetails) callability.Result {
	status := answer.Status
	if !status.known() {
		status = EnableConnectFailed
	}
	connected := status == EnableAlreadyEnabled || status == EnableEnabled
	template := wording.Unexplained
	if answer.Status.known() && answer.WordsStatus == status && answer.Message != "" {
		template = answer.Message
	}
	words := wording.Filling{Names: map[string]string{"server": server}, Texts: more.texts(), Own: a.Phrases}.Fill(template)
	text := "Not connected: " + status.String() + ". " + words + " Do not claim that it is connected or call its tools."
	changed := 0
	if connected {
		text = "Connected: " + status.String() + ". " + words
	}
	if status == EnableEnabled {
		changed = 1
	}
	var content wording.Object
	content.Text("status", status.String())
	content.Text("server", wording.Cut(server, wording.MaxShownName))
	content.Number("tools_changed", changed)
	failed := !connected && status != EnableAuthorizationRequired
	return callability.Result{Text: text, StructuredContent: content.JSON(), IsError: failed}
}

func (e EnableDetails) texts() map[string]string {
	reason := wording.Sentence(e.Reason, "the reason is not known")
	if e.Load != nil {
		reason += " (" + e.Load.effective().String() + ")"
	}
	return map[string]string{
		"variables": cmp.Or(wording.QuotedAll(e.Variables), "some of its variables"),
		"locks":     e.locks(),
		"reason":    reason,
	}
}

func (e EnableDetails) locks() string {
	if e.Locks == nil {
		return "It is not known which lock remains."
	}
	every := make([]string, len(e.Locks))
	for place, each := range e.Locks {
		every[place] = each.Status.String() + ": " + wording.OneLine(each.Text)
	}
	return cmp.Or(strings.Join(every, " "), "It lists no tools.")
}
