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
// ready to use. It is safe for concurrent use; do not copy it.
type Inventory struct {
	// Adapter writes what agents read. Set it before the first use.
	Adapter Adapter

	mutex      sync.Mutex
	servers    map[string]*listedServer
	generation uint64
	kept       map[judgementKey]*keptJudgement
}

type listedServer struct {
	handle *Server
	tools  map[string]*listedTool
}

type listedTool struct {
	handle  *Tool
	text    ToolText
	refusal string
}

// A ToolEntry is what a proxy knows of one tool of a server.
type ToolEntry struct {
	Name  string
	Facts ToolFacts
	// Text is what the upstream says about the tool. Leave it out if it is not known.
	Text ToolText
	// Refusal says why the proxy's own gate refuses the tool for good, if Facts assert that it does.
	Refusal string
}

type judgementKey struct {
	agent  *Agent
	scope  string
	policy *Policy
}

type keptJudgement struct {
	generation uint64
	judgement  *Judgement
}

// maxKept bounds the judgements that are kept; beyond it, all are forgotten.
const maxKept = 256

// PutServer adds a server, or replaces the facts of one that is there. Its tools stay.
func (i *Inventory) PutServer(name string, facts ServerFacts) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if server := i.servers[name]; server != nil {
		server.handle.Set(facts)
	} else {
		if i.servers == nil {
			i.servers = map[string]*listedServer{}
		}
		i.servers[name] = &listedServer{NewServer(name, facts), map[string]*listedTool{}}
	}
	i.generation++
}

// RemoveServer removes a server with its tools.
func (i *Inventory) RemoveServer(name string) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	delete(i.servers, name)
	i.generation++
}

// Put adds a tool of a server, or replaces it. Nothing is known of a server that was not put.
func (i *Inventory) Put(server string, tool ToolEntry) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.server(server).put(tool)
	i.generation++
}

// Replace replaces all tools of a server. The handle of a tool that stays is kept, with the class of its name.
func (i *Inventory) Replace(server string, tools []ToolEntry) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	listed := i.server(server)
	stay := map[string]bool{}
	for _, tool := range tools {
		stay[tool.Name] = true
		listed.put(tool)
	}
	maps.DeleteFunc(listed.tools, func(name string, _ *listedTool) bool { return !stay[name] })
	i.generation++
}

// Remove removes a tool of a server.
func (i *Inventory) Remove(server, tool string) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if listed := i.servers[server]; listed != nil {
		delete(listed.tools, tool)
		i.generation++
	}
}

// Tool returns the handle of a tool, for the call path; nil if the inventory does not hold it.
func (i *Inventory) Tool(server, tool string) *Tool {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if listed := i.servers[server]; listed != nil && listed.tools[tool] != nil {
		return listed.tools[tool].handle
	}
	return nil
}

// Text returns what is known of a tool's text, by its qualified name. A Judgement says which texts may be shown.
func (i *Inventory) Text(name string) (ToolText, bool) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	separator := cmp.Or(i.Adapter.Separator, ":")
	for place := 0; ; place++ {
		next := strings.Index(name[place:], separator)
		if next < 0 {
			return ToolText{}, false
		}
		// A server's name may hold the separator too.
		place += next
		if server := i.servers[name[:place]]; server != nil {
			if tool := server.tools[name[place+len(separator):]]; tool != nil {
				return tool.text, true
			}
		}
	}
}

func (i *Inventory) server(name string) *listedServer {
	if i.servers[name] == nil {
		if i.servers == nil {
			i.servers = map[string]*listedServer{}
		}
		i.servers[name] = &listedServer{NewServer(name, ServerFacts{}), map[string]*listedTool{}}
	}
	return i.servers[name]
}

func (s *listedServer) put(tool ToolEntry) {
	listed := s.tools[tool.Name]
	if listed == nil {
		s.tools[tool.Name] = &listedTool{s.handle.Tool(tool.Name, tool.Facts), tool.Text, tool.Refusal}
		return
	}
	listed.handle.Set(tool.Facts)
	listed.text, listed.refusal = tool.Text, tool.Refusal
}

// Judge decides about every tool that an agent may see: those of the servers in its scope; a nil scope is every server. The
// order is that of the names. An error is ErrNoPolicy, or ErrDuplicateTool.
func (i *Inventory) Judge(policy *Policy, agent *Agent, scope []string) (*Judgement, error) {
	if policy == nil || policy.payload == nil {
		return nil, ErrNoPolicy
	}
	i.mutex.Lock()
	defer i.mutex.Unlock()
	key := judgementKey{agent, scopeKey(scope), policy}
	if found := i.kept[key]; found != nil && found.generation == i.generation {
		return found.judgement, nil
	}
	judgement, err := i.Adapter.Judgement(i.items(policy, agent, scope), policy.statusWords...)
	if err != nil {
		return nil, err
	}
	if i.kept == nil || len(i.kept) >= maxKept {
		i.kept = map[judgementKey]*keptJudgement{}
	}
	i.kept[key] = &keptJudgement{i.generation, judgement}
	return judgement, nil
}

// scopeKey is equal for equal scopes. A nil scope has a key of its own.
func scopeKey(scope []string) string {
	if scope == nil {
		return "*"
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(scope)))
	return "=" + strings.Join(sorted, "\x00")
}

func (i *Inventory) items(policy *Policy, agent *Agent, scope []string) []Item {
	count := 0
	for _, server := range i.servers {
		count += len(server.tools)
	}
	items := make([]Item, 0, count)
	for _, name := range slices.Sorted(maps.Keys(i.servers)) {
		if scope != nil && !slices.Contains(scope, name) {
			continue
		}
		server := i.servers[name]
		for _, tool := range slices.Sorted(maps.Keys(server.tools)) {
			listed := server.tools[tool]
			items = append(items, Item{name, tool, policy.Decide(agent, listed.handle).Answer(), listed.refusal})
		}
	}
	return items
}
