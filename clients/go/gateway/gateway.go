// Package gateway answers the three tools of a proxy that shows its upstream tools by search: one finds tools, one calls
// them, and one lists servers. It knows no SDK; the modules mcpgo and mark3labs bind it to one.
package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"runtime"
	"slices"
	"sync"
	"weak"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/search"
)

const (
	// DiscoveryTool is the name of the tool that finds tools, unless the adapter has another.
	DiscoveryTool = "retrieve_tools"
	// CallTool is the name of the tool that calls others.
	CallTool = "call_tool"
	// ServersTool is the name of the tool that lists servers, with counts of the tools that cannot be called.
	ServersTool = "upstream_servers"
)

// A Caller is the agent of a request, and the servers that it may see.
type Caller struct {
	// Agent is nil if it is unknown.
	Agent *callability.Agent
	// Scope is the servers that it may see; the zero Scope is none.
	Scope callability.Scope
}

// A Gateway answers agents. Inventory and Policy must be set: without one of them, every method panics. The fields are set
// before the first use, and not changed afterwards. It is safe for concurrent use; do not copy it.
type Gateway struct {
	// Inventory has the servers and tools.
	Inventory *callability.Inventory
	// Policy returns the policy in effect; nil if there is none, and then nothing is called.
	Policy func() *callability.Policy
	// Search finds tools among these and no others, and returns their IDs, best first: a statistic over other tools would
	// reveal them. It must not change what the documents refer to. If it fails, the hooks of the inventory receive the error,
	// and tools are found by words; by default, they are too: see [search.Index].
	Search func(ctx context.Context, query string, tools []search.Document) ([]string, error)

	// corpora are those of each judgement that is still there.
	corpora sync.Map
}

// check panics if a field that must be set is not.
func (g *Gateway) check() {
	switch {
	case g.Inventory == nil:
		panic("gateway: the field Inventory of the Gateway is not set")
	case g.Policy == nil:
		panic("gateway: the field Policy of the Gateway is not set")
	}
}

// A Definition is a tool of the gateway, as an MCP server lists it.
type Definition struct {
	Name, Description string
	InputSchema       json.RawMessage
}

// Definitions are those of the tools that Discover, Decide and Servers answer.
func (g *Gateway) Definitions() (discovery, call, servers Definition) {
	g.check()
	adapter := g.Inventory.Adapter
	name := cmp.Or(adapter.DiscoveryTool, DiscoveryTool)
	return Definition{
			name, "Find tools by what they do. Call them by `" + CallTool + "`. " + callability.IncludeDisabledSentence,
			adapter.DiscoverySchema(),
		}, Definition{
			CallTool, "Call a tool by the name that `" + name + "` returned.",
			json.RawMessage(`{"type":"object","required":["name"],"properties":{"name":{"type":"string"},` +
				`"arguments":{"type":"object"}}}`),
		}, Definition{
			ServersTool, "List the servers, with the number of tools that can be called, and by reason of those that cannot.",
			json.RawMessage(`{"type":"object"}`),
		}
}

// Discover answers a call of the tool that finds tools.
func (g *Gateway) Discover(ctx context.Context, caller Caller, arguments []byte) callability.Result {
	g.check()
	asked, err := g.Inventory.Adapter.Arguments(arguments)
	if err != nil {
		return wrong(err)
	}
	judgement, err := g.Inventory.Judge(ctx, g.Policy(), caller.Agent, caller.Scope)
	if err != nil {
		return unavailable(err)
	}
	found, foundLocked := g.search(ctx, asked.Query, judgement)
	result, err := judgement.Discovery(callability.Discovery{
		Query: asked.Query, Limit: asked.Limit, IncludeDisabled: asked.IncludeDisabled, Found: found, FoundLocked: foundLocked,
	})
	if err != nil {
		return wrong(err)
	}
	return result
}

func unavailable(err error) callability.Result {
	if errors.Is(err, callability.ErrNoPolicy) {
		return callability.Unavailable("no policy is in effect")
	}
	return callability.Unavailable(err.Error())
}

// wrong answers wrong arguments: Arguments and Discovery have no other errors.
func wrong(err error) callability.Result {
	var invalid *callability.InvalidArgument
	if errors.As(err, &invalid) {
		return invalid.Result()
	}
	return callability.Unavailable(err.Error())
}

func (g *Gateway) search(ctx context.Context, query string, judgement *callability.Judgement) (found, foundLocked []string) {
	corpora := g.corporaOf(judgement)
	if g.Search != nil {
		found, err := g.Search(ctx, query, slices.Clone(corpora.callable.documents))
		if err == nil {
			foundLocked, err = g.Search(ctx, query, slices.Clone(corpora.locked.documents))
		}
		if err == nil {
			return found, foundLocked
		}
		g.Inventory.Hooks.Warn(ctx, "search_failed", "why", err.Error())
	}
	return corpora.callable.index().SearchNear(query), corpora.locked.index().Search(query)
}

// Locked tools have a corpus of their own, so that they change no score of a callable one.
type corpora struct{ callable, locked corpus }

// A corpus is some tools to search, and an index of them, which is made when it is first needed.
type corpus struct {
	documents []search.Document
	index     func() *search.Index
}

// corporaOf are made once for a judgement, and go with it.
func (g *Gateway) corporaOf(judgement *callability.Judgement) corpora {
	key := weak.Make(judgement)
	made, is := g.corpora.LoadOrStore(key, sync.OnceValue(func() corpora {
		judgement := key.Value() // the caller has it
		return corpora{corpusOf(judgement, judgement.CallableNames()), corpusOf(judgement, judgement.LockedNames())}
	}))
	if !is {
		runtime.AddCleanup(judgement, func(key weak.Pointer[callability.Judgement]) { g.corpora.Delete(key) }, key)
	}
	found := made.(func() corpora)()
	runtime.KeepAlive(judgement)
	return found
}

func corpusOf(judgement *callability.Judgement, names []string) corpus {
	found := make([]search.Document, len(names))
	for place, name := range names {
		server, tool, _ := judgement.Split(name)
		found[place] = search.Document{ID: name, Server: server, Name: tool}
		text, _ := judgement.Text(name)
		if text.Description != nil {
			found[place].Description = *text.Description
		}
		found[place].Parameters, found[place].ParameterTexts = parameters(text.InputSchema)
	}
	return corpus{found, sync.OnceValue(func() *search.Index { return search.NewIndex(found) })}
}

// maxDepth is how deep in a schema the descriptions of parameters are searched.
const maxDepth = 5

// parameters are the names of what a schema takes, and its descriptions; none if it cannot be read.
func parameters(written json.RawMessage) (names, texts []string) {
	var schema, properties map[string]json.RawMessage
	if json.Unmarshal(written, &schema) != nil || json.Unmarshal(schema["properties"], &properties) != nil {
		return nil, nil
	}
	names = slices.Sorted(maps.Keys(properties))
	for _, name := range names {
		texts = append(texts, textsOf(properties[name], maxDepth)...)
	}
	return names, texts
}

// textsOf are the descriptions of a parameter and of what is in it: members of objects, items of lists.
func textsOf(written json.RawMessage, depth int) (texts []string) {
	// Each by itself: one that has another form must not hide the others.
	var schema map[string]json.RawMessage
	if depth == 0 || json.Unmarshal(written, &schema) != nil {
		return nil
	}
	var text string
	if json.Unmarshal(schema["description"], &text) == nil {
		texts = append(texts, text)
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(schema["properties"], &members) == nil {
		for _, name := range slices.Sorted(maps.Keys(members)) {
			texts = append(texts, textsOf(members[name], depth-1)...)
		}
	}
	return append(texts, textsOf(schema["items"], depth-1)...)
}

// A Call is what the proxy has to call.
type Call struct {
	Server, Tool string
	// Arguments are a JSON object; nil: there are none.
	Arguments json.RawMessage
}

// Decide answers a call of the tool that calls others. If the result is not nil, the agent reads it, and nothing is called.
func (g *Gateway) Decide(ctx context.Context, caller Caller, arguments []byte) (Call, *callability.Result) {
	g.check()
	// Not a struct, whose fields other spellings such as `NAME` would set too.
	var given map[string]json.RawMessage
	var name string
	switch {
	case len(arguments) > 0 && json.Unmarshal(arguments, &given) != nil:
		return Call{}, notDone("the arguments must be an object")
	case json.Unmarshal(given["name"], &name) != nil || name == "":
		return Call{}, notDone("`name` must be text, and is empty or not given")
	}
	forwarded := given["arguments"]
	switch {
	case string(forwarded) == "null":
		forwarded = nil
	case len(forwarded) > 0 && forwarded[0] != '{':
		return Call{}, notDone("`arguments` must be an object")
	}
	decision := g.Inventory.Decide(ctx, g.Policy(), caller.Agent, caller.Scope, name)
	if !decision.Callable() {
		return Call{}, decision.Rejection
	}
	return Call{decision.Tool.Server().Name(), decision.Tool.Name(), forwarded}, nil
}

func notDone(why string) *callability.Result {
	return &callability.Result{Text: "Not done: " + why + ".", IsError: true}
}

// Servers answers a call of the tool that lists servers.
func (g *Gateway) Servers(ctx context.Context, caller Caller) callability.Result {
	g.check()
	judgement, err := g.Inventory.Judge(ctx, g.Policy(), caller.Agent, caller.Scope)
	if err != nil {
		return unavailable(err)
	}
	counts := map[string]json.RawMessage{}
	for _, each := range judgement.CountsByServer() {
		counts[each.Server] = each.JSON()
	}
	type entry struct {
		Name  string          `json:"name"`
		Tools json.RawMessage `json:"tools,omitempty"`
	}
	found := struct {
		Servers []entry `json:"servers"`
	}{[]entry{}}
	for _, name := range g.Inventory.Servers(caller.Scope) {
		found.Servers = append(found.Servers, entry{name, counts[name]})
	}
	text, err := json.Marshal(found)
	if err != nil {
		return callability.Unavailable(err.Error())
	}
	return callability.Result{Text: string(text), StructuredContent: text}
}
