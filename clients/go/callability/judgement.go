package callability

import (
	"cmp"
	"encoding/json"
	"iter"
	"slices"
	"strings"

	"github.com/callability/callability/clients/go/internal/wording"
	"github.com/callability/callability/clients/go/search"
)

// An Adapter turns verdicts into what an agent reads, to the byte that the specification of adapters has. Its zero value has the
// defaults. It is never changed, and safe for concurrent use.
type Adapter struct {
	// Phrases are the proxy's own verb phrases, by action, such as "enable_tool": "run `proxy enable {server} {tool}`".
	Phrases map[string]string
	// DiscoveryTool is the name of the tool that finds tools; by default `retrieve_tools`.
	DiscoveryTool string
	// NoDiscovery says that the proxy has no such tool: no answer points to one, nor to `include_disabled`.
	NoDiscovery bool
	// Limits are those of discovery answers.
	Limits Limits
	// Separator joins server and tool in a qualified name; by default `:`.
	Separator string
	// FactsFromConfig says that the proxy takes declared facts from its config: one that is unread then stays so, and a
	// rejection asks for no retry.
	FactsFromConfig bool
}

func (a Adapter) separator() string { return cmp.Or(a.Separator, ":") }

func (a Adapter) discoveryTool() string { return cmp.Or(a.DiscoveryTool, "retrieve_tools") }

// Qualified is the name by which an agent knows a tool.
func (a Adapter) Qualified(server, tool string) string {
	return server + a.separator() + tool
}

// An Item is a tool with its answer.
type Item struct {
	Server, Tool string
	Answer       Answer
	// Refusal says why the proxy's own gate refuses the tool for good, if it does.
	Refusal string
	// Text is what the upstream says about the tool; nil: it is not known, or is given by Discovery.Text.
	Text *ToolText
}

// A Judgement is what was decided about the tools that one agent may see. The zero Judgement is about no tools.
// It is never changed, and safe for concurrent use.
type Judgement struct {
	adapter Adapter
	tools   []judged
	words   map[wordsKey]Words
	// servers are where the tools of each server are, if an inventory judged them: both are in the order of their names.
	servers []judgedServer
	// byName has the places of tools in any other order.
	byName     map[string]int
	duplicates []string
}

// A judgedServer is where the tools of a server are in a judgement.
type judgedServer struct {
	listed       *listedServer
	first, after int
}

type judged struct {
	*listedTool
	wordsRule    string
	status       Status
	withheld     bool
	undetermined bool
}

type wordsKey struct {
	status Status
	rule   string
}

// Judgement joins the tools that an agent may see with what was decided about them, in their order. The words of the items
// count, and any others that are given. A tool out of the agent's scope must not be among the items.
func (a Adapter) Judgement(items []Item, words ...Words) *Judgement {
	found := &Judgement{
		adapter: a,
		tools:   make([]judged, 0, len(items)),
		words:   map[wordsKey]Words{},
		byName:  make(map[string]int, len(items)),
	}
	for _, each := range words {
		found.addWords(each)
	}
	count := make(map[string]int, len(items))
	for place := range items {
		found.addWords(items[place].Answer.Words)
		count[a.Qualified(items[place].Server, items[place].Tool)]++
	}
	for place := range items {
		tool := a.listed(&items[place], nil, items[place].Text)
		if count[tool.name] > 1 {
			found.duplicates = append(found.duplicates, tool.name)
			continue
		}
		found.byName[tool.name] = len(found.tools)
		found.tools = append(found.tools, found.judged(tool, &items[place].Answer))
	}
	return found
}

// listed is an item as listings and judgements have it.
func (a Adapter) listed(item *Item, handle *Tool, text *ToolText) *listedTool {
	return &listedTool{
		handle: handle, name: a.Qualified(item.Server, item.Tool), server: item.Server, tool: item.Tool, text: text,
		refusal: wording.OneLine(item.Refusal),
	}
}

func (j *Judgement) addWords(words Words) {
	if words.Status.known() {
		j.words[wordsKey{words.Status, words.Rule}] = words
	}
}

func (s Status) known() bool { return StatusServerDisabled <= s && s <= StatusCallable }

func (j *Judgement) judged(tool *listedTool, answer *Answer) judged {
	found := judged{
		listedTool: tool, status: answer.Status, withheld: answer.WithholdText, undetermined: answer.Undetermined,
	}
	if !found.status.known() {
		found.status, found.withheld, found.undetermined = StatusDisabledUnknown, true, true
	}
	if _, own := j.words[wordsKey{found.status, answer.Rule}]; own && !found.undetermined {
		found.wordsRule = answer.Rule
	}
	return found
}

// Duplicates are the qualified names that two tools have. Neither tool is in the judgement, as if it did not exist.
func (j *Judgement) Duplicates() []string {
	return slices.Compact(slices.Sorted(slices.Values(j.duplicates)))
}

// Callable reports whether a tool is callable, by its qualified name. A tool that is not in the judgement is not.
func (j *Judgement) Callable(name string) bool {
	tool := j.tool(name)
	return tool != nil && tool.status == StatusCallable
}

// Split returns the server and the tool of a qualified name; false if the tool is not in the judgement.
func (j *Judgement) Split(name string) (server, tool string, found bool) {
	if each := j.tool(name); each != nil {
		return each.server, each.tool, true
	}
	return "", "", false
}

// Searchable reports whether the text of a tool may be indexed and shown to the agent.
func (j *Judgement) Searchable(name string) bool {
	tool := j.tool(name)
	return tool != nil && !tool.withheld
}

// Status is the status of a tool; [StatusUnspecified] if it is not in the judgement.
func (j *Judgement) Status(name string) Status {
	if tool := j.tool(name); tool != nil {
		return tool.status
	}
	return StatusUnspecified
}

// Text is what the upstream said about a tool when it was judged, by its qualified name; false if no text was known, or if it
// is withheld. Do not change what it refers to.
func (j *Judgement) Text(name string) (ToolText, bool) {
	if tool := j.tool(name); tool != nil && tool.text != nil && !tool.withheld {
		return *tool.text, true
	}
	return ToolText{}, false
}

// All yields every tool with its status, by its qualified name, in the order of the items. It has the tools that are withheld
// too: it is for a page of the proxy's own administrator, and not for an agent.
func (j *Judgement) All() iter.Seq2[string, Status] {
	return func(yield func(string, Status) bool) {
		for place := range j.tools {
			if !yield(j.tools[place].name, j.tools[place].status) {
				return
			}
		}
	}
}

// CallableNames are the qualified names of the callable tools, in the order of the items.
func (j *Judgement) CallableNames() []string {
	var found []string
	for place := range j.tools {
		if j.tools[place].status == StatusCallable {
			found = append(found, j.tools[place].name)
		}
	}
	return found
}

// LockedNames are the qualified names of the locked tools whose text may be searched, in the order of the items.
func (j *Judgement) LockedNames() []string {
	var found []string
	for place := range j.tools {
		if tool := &j.tools[place]; tool.status != StatusCallable && !tool.withheld {
			found = append(found, tool.name)
		}
	}
	return found
}

func (j *Judgement) tool(name string) *judged {
	if j.byName != nil {
		if place, is := j.byName[name]; is {
			return &j.tools[place]
		}
		return nil
	}
	for server, tool := range j.adapter.splits(name) {
		at, is := slices.BinarySearchFunc(j.servers, server, func(each judgedServer, name string) int {
			return strings.Compare(each.listed.handle.Name(), name)
		})
		if !is {
			continue
		}
		tools := j.tools[j.servers[at].first:j.servers[at].after]
		place, is := slices.BinarySearchFunc(tools, tool, func(each judged, name string) int {
			return strings.Compare(each.tool, name)
		})
		if is {
			return &tools[place]
		}
	}
	return nil
}

// Counts is the JSON object with the counts of each server that has a tool that is not callable.
func (j *Judgement) Counts() json.RawMessage {
	var found wording.Object
	for _, each := range j.CountsByServer() {
		found.Encoded(each.Server, each.JSON())
	}
	return found.JSON()
}

// A ServerCounts is how many tools of a server have each status.
type ServerCounts struct {
	Server string
	counts [StatusCallable + 1]int
}

// Of returns how many tools have a status.
func (c ServerCounts) Of(status Status) int {
	if int(status) >= len(c.counts) {
		return 0
	}
	return c.counts[status]
}

var countOrder = [...]Status{
	StatusDisabledByConfig, StatusDisabledByUser, StatusPendingApproval, StatusServerDisabled, StatusServerQuarantined, StatusDisabledUnknown,
}

// MarshalJSON returns what JSON does.
func (c ServerCounts) MarshalJSON() ([]byte, error) { return c.JSON(), nil }

// JSON is the `tools` block of the server in a list of servers.
func (c ServerCounts) JSON() json.RawMessage {
	var found wording.Object
	found.Number("callable", c.counts[StatusCallable])
	for _, status := range countOrder {
		if c.counts[status] > 0 {
			found.Number(status.String(), c.counts[status])
		}
	}
	return found.JSON()
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
		if matched := search.CountInName(wanted, tool.nameWords()); matched > 0 {
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
