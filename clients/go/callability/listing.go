package callability

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/callability/callability/clients/go/search"
)

// A listing is what an inventory holds at one moment. It and what it refers to are never changed.
type listing struct {
	// version counts the listings of the inventory.
	version uint64
	// servers are in the order of their names, the tools of each too.
	servers []*listedServer
	bytes   int
}

type listedServer struct {
	handle *Server
	tools  []*listedTool
	bytes  int
}

type listedTool struct {
	// handle is nil for an item of Adapter.Judgement.
	handle *Tool
	// name is the qualified name.
	name, server, tool string
	// text is nil if it is not known.
	text *ToolText
	// refusal is in one line.
	refusal string
	words   atomic.Pointer[[]string]
}

// nameWords are the words of the tool's name and of its server's.
func (t *listedTool) nameWords() []string {
	if found := t.words.Load(); found != nil {
		return *found
	}
	found := slices.Concat(search.Words(t.tool), search.Words(t.server))
	t.words.Store(&found)
	return found
}

// toolBytes are about those of a listedTool with its handle and the points of its axes.
const toolBytes = 512

func (t *listedTool) bytes() int {
	found := toolBytes + 2*len(t.name) + len(t.refusal)
	if t.text != nil {
		found += len(t.text.InputSchema) + len(t.text.Annotations)
		if t.text.Description != nil {
			found += len(*t.text.Description)
		}
	}
	return found
}

func (i *Inventory) listing() *listing {
	if found := i.listed.Load(); found != nil {
		return found
	}
	i.listed.CompareAndSwap(nil, &listing{})
	return i.listed.Load()
}

// update changes one server, and returns the listing after that. The change is nil for a server that is not there, and may
// be made several times, since others change the inventory meanwhile.
func (i *Inventory) update(name string, change func(*listedServer) *listedServer) *listing {
	for {
		before := i.listing()
		place, is := before.place(name)
		var server *listedServer
		if is {
			server = before.servers[place]
		}
		changed := change(server)
		if changed == server {
			return before
		}
		after := &listing{version: before.version + 1, bytes: before.bytes}
		if is {
			after.bytes -= server.bytes
		}
		switch {
		case changed == nil:
			after.servers = slices.Delete(slices.Clone(before.servers), place, place+1)
		case is:
			after.servers = slices.Clone(before.servers)
			after.servers[place] = changed
		default:
			after.servers = slices.Insert(slices.Clone(before.servers), place, changed)
		}
		if changed != nil {
			after.bytes += changed.bytes
		}
		if i.listed.CompareAndSwap(before, after) {
			return after
		}
	}
}

// count is how many tools are in a scope.
func (l *listing) count(scope Scope) int {
	found := 0
	for _, server := range l.servers {
		if scope.Includes(server.handle.Name()) {
			found += len(server.tools)
		}
	}
	return found
}

func (l *listing) place(server string) (int, bool) {
	return slices.BinarySearchFunc(l.servers, server, func(each *listedServer, name string) int {
		return strings.Compare(each.handle.Name(), name)
	})
}

// server is nil if there is none of this name.
func (l *listing) server(name string) *listedServer {
	if place, is := l.place(name); is {
		return l.servers[place]
	}
	return nil
}

func (s *listedServer) place(tool string) (int, bool) {
	return slices.BinarySearchFunc(s.tools, tool, func(each *listedTool, name string) int {
		return strings.Compare(each.tool, name)
	})
}

// tool is nil if there is none of this name.
func (s *listedServer) tool(name string) *listedTool {
	if s == nil {
		return nil
	}
	if place, is := s.place(name); is {
		return s.tools[place]
	}
	return nil
}

// find returns the tool of a qualified name among the servers of a scope, and how many tools have that name: a server's
// name may hold the separator too.
func (l *listing) find(adapter Adapter, scope Scope, name string) (found *listedTool, count int) {
	for server, tool := range adapter.splits(name) {
		if scope.Includes(server) {
			if listed := l.server(server).tool(tool); listed != nil {
				found, count = listed, count+1
			}
		}
	}
	return found, count
}

// splits yields every server and tool whose qualified name this is.
func (a Adapter) splits(name string) func(yield func(server, tool string) bool) {
	return func(yield func(server, tool string) bool) {
		separator := a.separator()
		for place := 0; place < len(name); place++ {
			next := strings.Index(name[place:], separator)
			if next < 0 {
				return
			}
			if place += next; !yield(name[:place], name[place+len(separator):]) {
				return
			}
		}
	}
}

// duplicates are the tools in a scope whose qualified name another one has.
func (l *listing) duplicates(adapter Adapter, scope Scope) map[*listedTool]bool {
	var found map[*listedTool]bool
	for _, server := range l.servers {
		name := server.handle.Name()
		if !strings.Contains(name, adapter.separator()[:1]) || !scope.Includes(name) {
			continue
		}
		for _, tool := range server.tools {
			if _, count := l.find(adapter, scope, tool.name); count > 1 {
				if found == nil {
					found = map[*listedTool]bool{}
				}
				for other, rest := range adapter.splits(tool.name) {
					if each := l.server(other).tool(rest); each != nil && scope.Includes(other) {
						found[each] = true
					}
				}
			}
		}
	}
	return found
}

// wrong says what is wrong with a tool.
func (l *listing) wrong(adapter Adapter, server, tool string) []error {
	listed := l.server(server)
	found := listed.tool(tool)
	if found == nil {
		return nil
	}
	var wrong []error
	if err := found.handle.err; err != nil {
		wrong = append(wrong, &EntryError{server, tool, err})
	}
	if err := listed.handle.err; err != nil {
		wrong = append(wrong, &EntryError{server, tool, err})
	}
	if _, count := l.find(adapter, AllServers(), found.name); count > 1 {
		wrong = append(wrong, &EntryError{server, tool, ErrDuplicateTool})
	}
	return wrong
}

// orUnknown is the server, or one of which nothing is known.
func orUnknown(server *listedServer, name string) *listedServer {
	return cmp.Or(server, &listedServer{handle: NewServer(name, ServerFacts{})})
}

// listed returns what is there of a tool if it is equal, and keeps its handle if its facts are.
func (s *listedServer) listed(adapter Adapter, entry ToolEntry, text *ToolText) *listedTool {
	before := s.tool(entry.Name)
	item := Item{Server: s.handle.Name(), Tool: entry.Name, Refusal: entry.Refusal}
	if before == nil {
		return adapter.listed(&item, s.handle.Tool(entry.Name, entry.Facts), text)
	}
	handle := before.handle
	if !handle.facts.equal(entry.Facts) {
		handle = handle.With(entry.Facts)
	}
	after := adapter.listed(&item, handle, text)
	if handle == before.handle && before.text.equal(text) && before.refusal == after.refusal {
		return before
	}
	return after
}

// with returns the server with a tool added or replaced.
func (s *listedServer) with(tool *listedTool) *listedServer {
	place, is := s.place(tool.tool)
	switch {
	case is && s.tools[place] == tool:
		return s
	case is:
		tools := slices.Clone(s.tools)
		tools[place] = tool
		return &listedServer{s.handle, tools, s.bytes - s.tools[place].bytes() + tool.bytes()}
	}
	tools := append(make([]*listedTool, 0, len(s.tools)+1), s.tools[:place]...)
	return &listedServer{s.handle, append(append(tools, tool), s.tools[place:]...), s.bytes + tool.bytes()}
}

func (s *listedServer) without(tool string) *listedServer {
	place, is := s.place(tool)
	if !is {
		return s
	}
	return &listedServer{s.handle, slices.Delete(slices.Clone(s.tools), place, place+1), s.bytes - s.tools[place].bytes()}
}

// withTools returns the server with these tools and no others, in any order.
func (s *listedServer) withTools(tools []*listedTool) *listedServer {
	slices.SortFunc(tools, func(one, other *listedTool) int { return strings.Compare(one.tool, other.tool) })
	if slices.Equal(tools, s.tools) && s.tools != nil {
		return s
	}
	after := &listedServer{handle: s.handle, tools: tools}
	for _, tool := range tools {
		after.bytes += tool.bytes()
	}
	return after
}

// withFacts returns the server with other facts, which are those of all its tools.
func (s *listedServer) withFacts(facts ServerFacts) *listedServer {
	if s.handle.facts.equal(facts) {
		return s
	}
	after := &listedServer{handle: s.handle.With(facts), bytes: s.bytes}
	for _, tool := range s.tools {
		after.tools = append(after.tools, &listedTool{
			handle: tool.handle.On(after.handle), name: tool.name, server: tool.server, tool: tool.tool, text: tool.text,
			refusal: tool.refusal,
		})
	}
	return after
}
