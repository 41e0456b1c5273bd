package callability

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
)

// An Inventory holds the servers and tools of a proxy, and judges them for its agents. A judgement is kept until the policy,
// the agent, or what the inventory holds changes; then only what changed is decided again. The zero Inventory is empty and
// ready to use. It is safe for concurrent use; do not copy it. Change facts by its methods, and not on a handle.
type Inventory struct {
	// Adapter writes what agents read. Set it before the first use.
	Adapter Adapter
	// Hooks receive how long judgements take. Set them before the first use.
	Hooks Hooks

	mutex      sync.Mutex
	servers    map[string]*listedServer
	generation uint64
	// names is the generation in which a tool was added or removed.
	names uint64
	kept  map[judgementKey]*keptJudgement
}

type listedServer struct {
	handle *Server
	tools  map[string]*listedTool
	// names are those of the tools, in their order; nil: they have to be sorted.
	names []string
	// changed is the generation in which it, or a tool of it, has changed.
	changed uint64
}

type listedTool struct {
	handle *Tool
	// text is never changed: judgements share it. It is nil if it is not known.
	text    *ToolText
	refusal string
}

// A ToolEntry is what a proxy knows of one tool of a server.
type ToolEntry struct {
	Name  string
	Facts ToolFacts
	// Text is what the upstream says about the tool. Leave it out if it is not known: a query then finds the tool by its name.
	Text ToolText
	// Refusal says why the proxy's own gate refuses the tool for good, if Facts assert that it does.
	Refusal string
}

// PutServer adds a server, or replaces the facts of one that is there. Its tools stay.
func (i *Inventory) PutServer(name string, facts ServerFacts) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	server := i.server(name)
	if !server.handle.Facts().equal(facts) {
		server.handle.Set(facts)
		i.changed(server)
	}
}

// RemoveServer removes a server with its tools.
func (i *Inventory) RemoveServer(name string) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if server := i.servers[name]; server != nil {
		delete(i.servers, name)
		i.renamed(server)
	}
}

// Put adds a tool of a server, or replaces it. Nothing is known of a server that was not put.
func (i *Inventory) Put(server string, tool ToolEntry) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.put(i.server(server), tool)
}

// Replace replaces all tools of a server. What is equal to what was there is not decided again.
func (i *Inventory) Replace(server string, tools []ToolEntry) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	listed := i.server(server)
	stay := map[string]bool{}
	for _, tool := range tools {
		stay[tool.Name] = true
		i.put(listed, tool)
	}
	for name := range listed.tools {
		if !stay[name] {
			delete(listed.tools, name)
			i.renamed(listed)
		}
	}
}

// Remove removes a tool of a server.
func (i *Inventory) Remove(server, tool string) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if listed := i.servers[server]; listed != nil && listed.tools[tool] != nil {
		delete(listed.tools, tool)
		i.renamed(listed)
	}
}

// changed notes that a server, or a tool of it, is another than before.
func (i *Inventory) changed(server *listedServer) {
	i.generation++
	server.changed = i.generation
}

// renamed notes that there are other tools than before.
func (i *Inventory) renamed(server *listedServer) {
	i.changed(server)
	server.names = nil
	i.names = i.generation
}

// Tool returns the handle of a tool, for the call path; nil if the inventory does not hold it.
func (i *Inventory) Tool(server, tool string) *Tool {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if listed := i.tool(server, tool); listed != nil {
		return listed.handle
	}
	return nil
}

// Refusal is why the proxy's own gate refuses a tool for good, for Adapter.Rejection; empty if it does not.
func (i *Inventory) Refusal(server, tool string) string {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if listed := i.tool(server, tool); listed != nil {
		return listed.refusal
	}
	return ""
}

// Servers are the names of the servers in a scope, in their order.
func (i *Inventory) Servers(scope Scope) []string {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	var found []string
	for _, name := range slices.Sorted(maps.Keys(i.servers)) {
		if scope.Includes(name) {
			found = append(found, name)
		}
	}
	return found
}

// Text returns what is known of a tool's text at this moment, by its qualified name; false if nothing is, or if two tools
// have the name, one of which may be hidden from the agent. Show those of a Judgement instead: this one may not have been
// judged.
func (i *Inventory) Text(name string) (ToolText, bool) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	separator := cmp.Or(i.Adapter.Separator, ":")
	var found *listedTool
	for place := 0; ; place++ {
		next := strings.Index(name[place:], separator)
		if next < 0 {
			break
		}
		// A server's name may hold the separator too.
		place += next
		if tool := i.tool(name[:place], name[place+len(separator):]); tool != nil && found != nil {
			return ToolText{}, false
		} else if tool != nil {
			found = tool
		}
	}
	if found == nil || found.text == nil {
		return ToolText{}, false
	}
	return *found.text, true
}

func (i *Inventory) tool(server, tool string) *listedTool {
	if listed := i.servers[server]; listed != nil {
		return listed.tools[tool]
	}
	return nil
}

func (i *Inventory) server(name string) *listedServer {
	if i.servers[name] == nil {
		if i.servers == nil {
			i.servers = map[string]*listedServer{}
		}
		i.servers[name] = &listedServer{handle: NewServer(name, ServerFacts{}), tools: map[string]*listedTool{}}
	}
	return i.servers[name]
}

func (i *Inventory) put(server *listedServer, tool ToolEntry) {
	listed := server.tools[tool.Name]
	if listed == nil {
		server.tools[tool.Name] = &listedTool{server.handle.Tool(tool.Name, tool.Facts), tool.knownText(), tool.Refusal}
		i.renamed(server)
		return
	}
	if !listed.handle.Facts().equal(tool.Facts) {
		listed.handle.Set(tool.Facts)
		i.changed(server)
	}
	if text := tool.knownText(); !listed.text.equal(text) || listed.refusal != tool.Refusal {
		listed.text, listed.refusal = text, tool.Refusal
		i.changed(server)
	}
}

// knownText is what the upstream says about the tool; nil if nothing of it is given.
func (t ToolEntry) knownText() *ToolText {
	if t.Text.equal(&ToolText{}) {
		return nil
	}
	return &t.Text
}
