package callability

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// An Adapter turns verdicts into what an agent reads, as docs/adapter.md specifies to the byte. Its zero value has the
// defaults. It is never changed, and safe for concurrent use.
type Adapter struct {
	// Phrases are the proxy's own verb phrases, by action, such as "enable_tool": "run `proxy enable {server} {tool}`".
	Phrases map[string]string
	// DiscoveryTool is the name of the tool that finds tools; by default `retrieve_tools`.
	DiscoveryTool string
	// Separator joins server and tool in a qualified name; by default `:`.
	Separator string
	// FactsFromConfig says that the proxy takes declared facts from its config: one that is unread then stays so, and a
	// rejection asks for no retry.
	FactsFromConfig bool
}

func (a Adapter) discoveryTool() string { return cmp.Or(a.DiscoveryTool, "retrieve_tools") }

// Qualified is the name by which an agent knows a tool.
func (a Adapter) Qualified(server, tool string) string {
	return server + cmp.Or(a.Separator, ":") + tool
}

// An Item is a tool with its answer.
type Item struct {
	Server, Tool string
	Answer       Answer
	// Refusal says why the proxy's own gate refuses the tool for good, if it does.
	Refusal string
}

// ErrDuplicateTool says that two tools have the same qualified name.
var ErrDuplicateTool = errors.New("callability: two tools have the same qualified name")

// A Judgement is what was decided about the tools that one agent may see. The zero Judgement is about no tools.
// It is never changed, and safe for concurrent use.
type Judgement struct {
	adapter Adapter
	tools   []judged
	words   map[wordsKey]Words
	byName  map[string]int
}

type judged struct {
	name, server, tool string
	status             Status
	withheld           bool
	undetermined       bool
	wordsRule          string
	refusal            string
	// text is what its upstream said when it was judged; nil if no inventory judged it, or if it was not known.
	text *ToolText
	// nameWords are the words of a locked tool's name and of its server's.
	nameWords []string
}

type wordsKey struct {
	status Status
	rule   string
}

// Judgement joins the tools that an agent may see with what was decided about them, in their order. The words of the items
// count, and any others that are given. A tool out of the agent's scope must not be among the items (FR-007).
func (a Adapter) Judgement(items []Item, words ...Words) (*Judgement, error) {
	found := &Judgement{
		adapter: a,
		tools:   make([]judged, 0, len(items)),
		words:   map[wordsKey]Words{},
	}
	for _, each := range words {
		found.addWords(each)
	}
	for place := range items {
		found.addWords(items[place].Answer.Words)
	}
	for place := range items {
		found.tools = append(found.tools, found.judged(&items[place]))
	}
	if err := found.index(); err != nil {
		return nil, err
	}
	return found, nil
}

func (j *Judgement) addWords(words Words) {
	if words.Status.known() {
		j.words[wordsKey{words.Status, words.Rule}] = words
	}
}

func (s Status) known() bool { return ServerDisabled <= s && s <= Callable }

func (j *Judgement) judged(item *Item) judged {
	tool := judged{
		name:         j.adapter.Qualified(item.Server, item.Tool),
		server:       item.Server,
		tool:         item.Tool,
		status:       item.Answer.Status,
		withheld:     item.Answer.WithholdText,
		undetermined: item.Answer.Undetermined,
		refusal:      oneLine(item.Refusal),
	}
	if !tool.status.known() {
		tool.status, tool.withheld, tool.undetermined = DisabledUnknown, true, true
	}
	if _, own := j.words[wordsKey{tool.status, item.Answer.Rule}]; own && !tool.undetermined {
		tool.wordsRule = item.Answer.Rule
	}
	if tool.status != Callable {
		tool.nameWords = slices.Concat(nameWords(tool.tool), nameWords(tool.server))
	}
	return tool
}

// index makes the tools known by their qualified names. An error is ErrDuplicateTool.
func (j *Judgement) index() error {
	j.byName = make(map[string]int, len(j.tools))
	for place := range j.tools {
		name := j.tools[place].name
		if _, again := j.byName[name]; again {
			return fmt.Errorf("%w: %s", ErrDuplicateTool, quoted(name))
		}
		j.byName[name] = place
	}
	return nil
}

// Callable says whether a tool is callable, by its qualified name. A tool that is not in the judgement is not.
func (j *Judgement) Callable(name string) bool {
	tool := j.tool(name)
	return tool != nil && tool.status == Callable
}

// Split returns the server and the tool of a qualified name; false if the tool is not in the judgement.
func (j *Judgement) Split(name string) (server, tool string, found bool) {
	if each := j.tool(name); each != nil {
		return each.server, each.tool, true
	}
	return "", "", false
}

// Searchable says whether the text of a tool may be indexed and shown to the agent.
func (j *Judgement) Searchable(name string) bool {
	tool := j.tool(name)
	return tool != nil && !tool.withheld
}

// Status is the status of a tool; StatusUnspecified if it is not in the judgement.
func (j *Judgement) Status(name string) Status {
	if tool := j.tool(name); tool != nil {
		return tool.status
	}
	return StatusUnspecified
}

// Text is what the upstream said about a tool when it was judged, by its qualified name; false if no Inventory judged the
// tool, or if no text was known. It must not be shown unless Searchable says so.
func (j *Judgement) Text(name string) (ToolText, bool) {
	if tool := j.tool(name); tool != nil && tool.text != nil {
		return *tool.text, true
	}
	return ToolText{}, false
}

// CallableNames are the qualified names of the callable tools, in the order of the items.
func (j *Judgement) CallableNames() []string {
	var found []string
	for place := range j.tools {
		if j.tools[place].status == Callable {
			found = append(found, j.tools[place].name)
		}
	}
	return found
}

// LockedNames are the qualified names of the locked tools whose text may be searched, in the order of the items.
func (j *Judgement) LockedNames() []string {
	var found []string
	for place := range j.tools {
		if tool := &j.tools[place]; tool.status != Callable && !tool.withheld {
			found = append(found, tool.name)
		}
	}
	return found
}

func (j *Judgement) tool(name string) *judged {
	place, ok := j.byName[name]
	if !ok {
		return nil
	}
	return &j.tools[place]
}

// Counts is the JSON object with the counts of each server that has a tool that is not callable (FR-010).
func (j *Judgement) Counts() []byte {
	var found object
	for _, each := range j.CountsByServer() {
		found.encoded(each.Server, each.JSON())
	}
	return found.json()
}

// A ServerCounts is how many tools of a server have each status.
type ServerCounts struct {
	Server string
	counts [Callable + 1]int
}

// Of returns how many tools have a status.
func (c ServerCounts) Of(status Status) int {
	if int(status) >= len(c.counts) {
		return 0
	}
	return c.counts[status]
}

var countOrder = [...]Status{
	DisabledByConfig, DisabledByUser, PendingApproval, ServerDisabled, ServerQuarantined, DisabledUnknown,
}

// JSON is the `tools` block of the server in a list of servers.
func (c ServerCounts) JSON() []byte {
	var found object
	found.number("callable", c.counts[Callable])
	for _, status := range countOrder {
		if c.counts[status] > 0 {
			found.number(status.String(), c.counts[status])
		}
	}
	return found.json()
}

// CountsByServer returns the counts of each server that has a tool that is not callable, in the order of the items.
func (j *Judgement) CountsByServer() []ServerCounts {
	var every []ServerCounts
	places := map[string]int{}
	for index := range j.tools {
		tool := &j.tools[index]
		place, ok := places[tool.server]
		if !ok {
			place = len(every)
			places[tool.server] = place
			every = append(every, ServerCounts{Server: tool.server})
		}
		every[place].counts[tool.status]++
	}
	return slices.DeleteFunc(every, func(each ServerCounts) bool {
		for _, status := range countOrder {
			if each.counts[status] > 0 {
				return false
			}
		}
		return true
	})
}

// foundByName are the tools that wanted words find by name: most words first, then by qualified name.
func foundByName(wanted []string, tools []*judged) []*judged {
	type ranked struct {
		tool    *judged
		matched int
	}
	var found []ranked
	for _, tool := range tools {
		if matched := wordsMatched(wanted, tool.nameWords); matched > 0 {
			found = append(found, ranked{tool, matched})
		}
	}
	slices.SortFunc(found, func(one, other ranked) int {
		return cmp.Or(cmp.Compare(other.matched, one.matched), strings.Compare(one.tool.name, other.tool.name))
	})
	sorted := make([]*judged, len(found))
	for place, each := range found {
		sorted[place] = each.tool
	}
	return sorted
}
