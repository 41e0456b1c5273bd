package callability

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/callability/callability/clients/go/internal/wording"
)

// An Inventory holds the servers and tools of a proxy, decides the calls of its agents, and judges all tools for them. The
// zero Inventory is empty and ready to use. It is safe for concurrent use; do not copy it. Set its fields before the first
// use.
//
// Reading never waits for a change, nor for a judgement: what the inventory holds is replaced as a whole.
type Inventory struct {
	// Adapter writes what agents read.
	Adapter Adapter
	// Hooks receive how long judgements take.
	Hooks Hooks
	// Decided receives each decision of Decide, before the call is made; nil: nothing does. It is called from several
	// goroutines with the context of the call, and must not block. See the package records.
	Decided func(context.Context, DecidedCall)
	// MaxBytes bounds what the judgements that are kept take beside the inventory itself; by default 64 MiB. The least
	// recently used go first. Judgements by a policy that is no longer referred to go with it.
	MaxBytes int

	listed atomic.Pointer[listing]
	kept   keptJudgements
}

// A ToolEntry is what a proxy knows of one tool of a server. Do not change what it refers to after it was put.
type ToolEntry struct {
	Name  string
	Facts ToolFacts
	// Text is what the upstream says about the tool. Leave it out if it is not known: a query then finds the tool by its name.
	Text ToolText
	// Refusal says why the proxy's own gate refuses the tool for good, if Facts assert that it does.
	Refusal string
}

// ErrDuplicateTool says that two tools have the same qualified name, or that a server lists a name twice.
var ErrDuplicateTool = errors.New("callability: two tools have the same qualified name")

// ErrMalformedText says that a schema or annotations are not JSON.
var ErrMalformedText = errors.New("callability: the text of a tool is not JSON")

// An EntryError says what is wrong with a tool or a server of an inventory. It wraps an *[ItemError], for which the tool, or
// every tool of the server, is held back; [ErrDuplicateTool], for which both tools are left out of what agents see, or the
// second one if a server lists a name twice; or [ErrMalformedText], for which the tool has no schema or annotations.
type EntryError struct {
	// Server and Tool are names. Tool is empty if the error is about the server.
	Server, Tool string
	Err          error
}

func (e *EntryError) Error() string {
	at := "server " + wording.Quoted(e.Server)
	if e.Tool != "" {
		at = "tool " + wording.Quoted(e.Tool) + " of " + at
	}
	return at + ": " + e.Err.Error()
}

func (e *EntryError) Unwrap() error { return e.Err }

// PutServer adds a server, or replaces the facts of one that is there. Its tools stay. An error is an *[EntryError] that says
// why its tools are held back.
func (i *Inventory) PutServer(name string, facts ServerFacts) error {
	after := i.update(name, func(before *listedServer) *listedServer {
		if before == nil {
			return &listedServer{handle: NewServer(name, facts)}
		}
		return before.withFacts(facts)
	})
	if err := after.server(name).handle.err; err != nil {
		return &EntryError{Server: name, Err: err}
	}
	return nil
}

// RemoveServer removes a server with its tools.
func (i *Inventory) RemoveServer(name string) {
	i.update(name, func(*listedServer) *listedServer { return nil })
}

// Put adds a tool of a server, or replaces it. Nothing is known of a server that was not put. The tool is there in any case,
// and an error joins what is wrong with it: each is an *[EntryError].
func (i *Inventory) Put(server string, tool ToolEntry) error {
	text, err := tool.Text.checked()
	after := i.update(server, func(before *listedServer) *listedServer {
		before = orUnknown(before, server)
		return before.with(before.listed(i.Adapter, tool, text))
	})
	wrong := after.wrong(i.Adapter, server, tool.Name)
	if err != nil {
		wrong = append(wrong, &EntryError{server, tool.Name, err})
	}
	return errors.Join(wrong...)
}

// Replace replaces all tools of a server. What is equal to what was there is not decided again. If a name is listed twice,
// the first one counts. An error joins those of Put for each tool that has one; the others are as if it was not there.
func (i *Inventory) Replace(server string, tools []ToolEntry) error {
	var wrong []error
	texts, first := make([]*ToolText, len(tools)), make(map[string]int, len(tools))
	for place, tool := range tools {
		var err error
		if texts[place], err = tool.Text.checked(); err != nil {
			wrong = append(wrong, &EntryError{server, tool.Name, err})
		}
		if _, again := first[tool.Name]; again {
			wrong = append(wrong, &EntryError{server, tool.Name, fmt.Errorf("%w: it is listed twice", ErrDuplicateTool)})
			continue
		}
		first[tool.Name] = place
	}
	after := i.update(server, func(before *listedServer) *listedServer {
		before = orUnknown(before, server)
		every := make([]*listedTool, 0, len(first))
		for place, tool := range tools {
			if first[tool.Name] == place {
				every = append(every, before.listed(i.Adapter, tool, texts[place]))
			}
		}
		return before.withTools(every)
	})
	for place, tool := range tools {
		if first[tool.Name] == place {
			wrong = append(wrong, after.wrong(i.Adapter, server, tool.Name)...)
		}
	}
	return errors.Join(wrong...)
}

// Remove removes a tool of a server.
func (i *Inventory) Remove(server, tool string) {
	i.update(server, func(before *listedServer) *listedServer {
		if before == nil {
			return nil
		}
		return before.without(tool)
	})
}

// Tool returns the handle of a tool; nil if the inventory does not hold it. It is a view of this moment: a change of the
// inventory makes another handle.
func (i *Inventory) Tool(server, tool string) *Tool {
	if listed := i.listing().server(server).tool(tool); listed != nil {
		return listed.handle
	}
	return nil
}

// Server returns the handle of a server; nil if the inventory does not hold it.
func (i *Inventory) Server(name string) *Server {
	if listed := i.listing().server(name); listed != nil {
		return listed.handle
	}
	return nil
}

// Servers are the names of the servers in a scope, in their order.
func (i *Inventory) Servers(scope Scope) []string {
	var found []string
	for _, server := range i.listing().servers {
		if name := server.handle.Name(); scope.Includes(name) {
			found = append(found, name)
		}
	}
	return found
}

// A Decision is what becomes of a call that an agent makes by a qualified name. The zero Decision is not callable.
type Decision struct {
	// Tool is the tool that the name means; nil if the inventory holds none that this agent may see.
	Tool *Tool
	// Verdict says why the tool can or cannot be called.
	Verdict Verdict
	// Rejection is what the agent reads in place of a call; nil if the tool is callable.
	Rejection *Result
}

// Callable reports whether to call the tool.
func (d Decision) Callable() bool { return d.Tool != nil && d.Rejection == nil && d.Verdict.Callable() }

// A DecidedCall is a decision about a call, for a record of it.
type DecidedCall struct {
	// Agent made the call; nil if it is unknown.
	Agent *Agent
	// Server and Tool are those that the call named. Server is empty if its name has no separator.
	Server, Tool string
	// OutOfScope says that the agent may not see the server.
	OutOfScope bool
	// NoPolicy says that no policy was in effect.
	NoPolicy bool
	// Judged is the tool with the facts by which it was judged; nil if there is none that this agent may see, or no policy.
	Judged *Tool
	// Verdict is the zero Verdict if nothing was judged.
	Verdict Verdict
	// Took is how long the decision took.
	Took time.Duration
}

// Decide decides about the call of a tool by its qualified name, for an agent that may see some servers. A tool that the
// agent may not see is answered exactly as one that does not exist. A tool that is not listed may exist if its server is
// disabled, or in quarantine without a tool that is known: it is answered by that status. Without a policy, nothing is called.
// The context is that of [Inventory.Judge], which finds similar names for a tool that does not exist.
func (i *Inventory) Decide(ctx context.Context, policy *Policy, agent *Agent, scope Scope, name string) Decision {
	if i.Decided == nil {
		found, _ := i.decide(ctx, policy, agent, scope, name)
		return found
	}
	started := time.Now()
	found, judged := i.decide(ctx, policy, agent, scope, name)
	call := DecidedCall{Agent: agent, Judged: judged, Verdict: found.Verdict, Took: time.Since(started)}
	call.NoPolicy = policy == nil || policy.payload == nil
	i.name(&call, scope, name)
	i.Decided(ctx, call)
	return found
}

// name fills in which server and tool a call named, and whether the agent may not see the server.
func (i *Inventory) name(call *DecidedCall, scope Scope, name string) {
	if call.Judged != nil {
		call.Server, call.Tool = call.Judged.Server().Name(), call.Judged.Name()
		return
	}
	call.Tool = name
	for server, tool := range i.Adapter.splits(name) {
		hidden := i.Server(server) != nil && !scope.Includes(server)
		if hidden || call.Server == "" {
			call.Server, call.Tool, call.OutOfScope = server, tool, hidden
		}
		if hidden {
			return
		}
	}
}

// decide returns a decision, and what was judged; nil if nothing was.
func (i *Inventory) decide(ctx context.Context, policy *Policy, agent *Agent, scope Scope, name string) (Decision, *Tool) {
	if policy == nil || policy.payload == nil {
		return rejected(Unavailable("no policy is in effect")), nil
	}
	tool, count := i.listing().find(i.Adapter, scope, name)
	switch count {
	case 0:
		if found, judged := i.decideUnlisted(policy, agent, scope, name); judged != nil {
			return found, judged
		}
		judgement, err := i.Judge(ctx, policy, agent, scope)
		if err != nil {
			return rejected(Unavailable(err.Error())), nil
		}
		return rejected(i.Adapter.UnknownTool(name, judgement.CallableNames())), nil
	case 1:
		found := Decision{Tool: tool.handle, Verdict: policy.Decide(agent, tool.handle)}
		if !found.Verdict.Callable() {
			item := Item{Server: tool.server, Tool: tool.tool, Answer: found.Verdict.answer(), Refusal: tool.refusal}
			found.Rejection = i.Adapter.rejection(&item)
		}
		return found, tool.handle
	}
	return rejected(errorResult("Not called: two tools have the same qualified name " + wording.Quoted(name) + ", so a call" +
		" could mean either. Retrying does not help. Tell the user that the operator of this proxy must rename one of them or of" +
		" their servers.")), nil
}

// decideUnlisted decides about the tool of a server whose list is not there, and returns what it judged; nil if the name
// means none.
func (i *Inventory) decideUnlisted(policy *Policy, agent *Agent, scope Scope, name string) (Decision, *Tool) {
	listing := i.listing()
	for server, tool := range i.Adapter.splits(name) {
		listed := listing.server(server)
		if listed == nil || !scope.Includes(server) {
			continue
		}
		judged := listed.handle.Tool(tool, likelyTool)
		verdict := policy.Decide(agent, judged)
		status := verdict.Status()
		if status == StatusServerDisabled || status == StatusServerQuarantined && len(listed.tools) == 0 {
			item := Item{Server: server, Tool: tool, Answer: verdict.answer()}
			return Decision{Verdict: verdict, Rejection: i.Adapter.rejection(&item)}, judged
		}
	}
	return Decision{}, nil
}

func rejected(result Result) Decision { return Decision{Rejection: &result} }

// checked returns what is known of a text, nil if nothing is, and what of it is left out as malformed.
func (t ToolText) checked() (*ToolText, error) {
	var wrong []error
	for _, each := range []struct {
		what string
		json *json.RawMessage
	}{{"input schema", &t.InputSchema}, {"annotations", &t.Annotations}} {
		if len(*each.json) == 0 {
			*each.json = nil
		} else if !json.Valid(*each.json) {
			wrong = append(wrong, fmt.Errorf("%w: the %s of %d bytes", ErrMalformedText, each.what, len(*each.json)))
			*each.json = nil
		}
	}
	if t.Description == nil && t.InputSchema == nil && t.Annotations == nil {
		return nil, errors.Join(wrong...)
	}
	return &t, errors.Join(wrong...)
}
