package callability

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A LoadStatus says how loading the tools of a server ended. Its numbers are those of the contract.
type LoadStatus uint8

// The statuses of a load.
const (
	LoadUnspecified LoadStatus = iota
	LoadAvailable
	LoadTransient
	LoadDenied
	LoadPermanent
)

var loadNames = [...]string{"unspecified", "available", "transient", "denied", "permanent"}

func (s LoadStatus) String() string { return nameOf(loadNames[:], int(s)) }

func (s LoadStatus) known() bool { return LoadAvailable <= s && s <= LoadPermanent }

// An EnableStatus says how an enable of a server ended. Its numbers are those of the contract.
type EnableStatus uint8

// The statuses of an enable.
const (
	EnableUnspecified EnableStatus = iota
	UnknownServer
	AlreadyEnabled
	MissingCredentials
	Enabled
	Declined
	AuthorizationRequired
	Cancelled
	ConnectFailed
)

var enableNames = [...]string{"unspecified", "unknown_server", "already_enabled", "missing_credentials", "enabled",
	"declined", "authorization_required", "cancelled", "connect_failed"}

func (s EnableStatus) String() string { return nameOf(enableNames[:], int(s)) }

func (s EnableStatus) known() bool { return UnknownServer <= s && s <= ConnectFailed }

// An EnableEntry says what happens to the catalog entry that an enable uses. Its numbers are those of the contract.
type EnableEntry uint8

// EntryNone: there is none, since no attempt was made. EntryRolledBack: it is removed, and what the attempt opened is
// closed.
const (
	EntryUnspecified EnableEntry = iota
	EntryNone
	EntryKept
	EntryRolledBack
)

var entryNames = [...]string{"unspecified", "none", "kept", "rolled_back"}

func (e EnableEntry) String() string { return nameOf(entryNames[:], int(e)) }

// A LoadAnswer is what was decided about a load. The zero LoadAnswer counts as permanent.
type LoadAnswer struct {
	Status LoadStatus
	// Rule is the id of the rule that decided, or, if the answer is undetermined, of the rule that was reached.
	Rule string
	// Undetermined says whether a rule was reached whose condition depends on an unknown fact.
	Undetermined bool
	LiftedBy     LiftedBy
	Retry        Retry
	// WordsStatus and Message are the words for the answer, and the status that they are for.
	WordsStatus LoadStatus
	Message     string
}

// An EnableAnswer is what was decided about an enable. The zero EnableAnswer counts as a failed connection.
type EnableAnswer struct {
	Status EnableStatus
	// Rule is the id of the rule that decided, or, if the answer is undetermined, of the rule that was reached.
	Rule string
	// Undetermined says whether a rule was reached whose condition depends on an unknown fact.
	Undetermined bool
	LiftedBy     LiftedBy
	Retry        Retry
	// Entry is what happens to the catalog entry that the enable used.
	Entry EnableEntry
	// Error says whether the answer to the agent is an error result.
	Error bool
	// ToolsChanged says whether agents are notified that their tools have changed.
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
func (a Adapter) LoadMessages(answers map[string]LoadAnswer, reasons map[string]string) []LoadMessage {
	var found []LoadMessage
	names := make([]string, 0, len(answers))
	for name := range answers {
		names = append(names, name)
	}
	slices.Sort(names)
	for status := LoadTransient; status <= LoadPermanent; status++ {
		mine := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return answers[name].effective() != status })
		if len(mine) > 0 {
			found = append(found, LoadMessage{status, a.loadText(status, mine, answers, reasons)})
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

func (a Adapter) loadText(status LoadStatus, names []string, answers map[string]LoadAnswer, reasons map[string]string) string {
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
		listed[template] = append(listed[template], quoted(name)+whyPermanent(status, reasons[name]))
	}
	for _, template := range templates {
		servers := serversText(listed[template], groups[template].others)
		if !strings.Contains(template, "{servers}") {
			template = "{servers}: " + template
		}
		fill := filling{texts: map[string]string{"servers": servers}, own: a.Phrases}
		texts = append(texts, fill.fill(template))
	}
	return strings.Join(texts, " ")
}

func whyPermanent(status LoadStatus, reason string) string {
	if why := strings.TrimRight(shortened(oneLine(reason)), "."); status == LoadPermanent && why != "" {
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

// LoadMessagesJSON is the JSON object with the messages, by status.
func LoadMessagesJSON(messages []LoadMessage) []byte {
	var found object
	for _, each := range messages {
		found.text(each.Status.String(), each.Text)
	}
	return found.json()
}

// An EnableResult is what else is known about an enable.
type EnableResult struct {
	// Variables are the names of what is not set.
	Variables []string
	// Locks say why no tool of the server can be called: empty if it has no tool, and nil if that is not known.
	Locks []Lock
	// Load is what was decided about the load that failed, if there was one.
	Load *LoadAnswer
	// Reason is why the connection failed, in the proxy's own words, safe to show.
	Reason string
}

// EnableResult is what an agent reads that enabled a server by a name.
func (a Adapter) EnableResult(answer EnableAnswer, server string, more EnableResult) Result {
	status := answer.Status
	if !status.known() {
		status = ConnectFailed
	}
	connected := status == AlreadyEnabled || status == Enabled
	template := unexplained
	if answer.Status.known() && answer.WordsStatus == status && answer.Message != "" {
		template = answer.Message
	}
	words := filling{names: map[string]string{"server": server}, texts: more.texts(), own: a.Phrases}.fill(template)
	text := "Not connected: " + status.String() + ". " + words + " Do not claim that it is connected or call its tools."
	changed := 0
	if connected {
		text = "Connected: " + status.String() + ". " + words
	}
	if status == Enabled {
		changed = 1
	}
	var content object
	content.text("status", status.String())
	content.text("server", cut(server, maxShownName))
	content.number("tools_changed", changed)
	failed := !connected && status != AuthorizationRequired
	return Result{Text: text, StructuredContent: content.json(), IsError: failed}
}

func (e EnableResult) texts() map[string]string {
	reason := sentence(e.Reason, "the reason is not known")
	if e.Load != nil {
		reason += " (" + e.Load.effective().String() + ")"
	}
	return map[string]string{
		"variables": cmp.Or(quotedAll(e.Variables), "some of its variables"),
		"locks":     e.locks(),
		"reason":    reason,
	}
}

func (e EnableResult) locks() string {
	if e.Locks == nil {
		return "It is not known which lock remains."
	}
	every := make([]string, len(e.Locks))
	for place, each := range e.Locks {
		every[place] = each.Status.String() + ": " + oneLine(each.Text)
	}
	return cmp.Or(strings.Join(every, " "), "It lists no tools.")
}
