// Package mcpgo joins callability with the official Go SDK of MCP: a Gateway adds the tools that find tools, call
// them and list servers to an mcp.Server, and decides every call.
package mcpgo

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/callability/callability/clients/go/callability"
)

const (
	// DiscoveryTool is the name of the tool that finds tools.
	DiscoveryTool = "retrieve_tools"
	// CallTool is the name of the tool that calls others.
	CallTool = "call_tool"
	// ServersTool is the name of the tool that lists servers, with counts of the tools that cannot be called.
	ServersTool = "upstream_servers"
)

const duplicateText = "Not done: two tools have the same qualified name, so a call could mean either. Nothing was shown or" +
	" called; this says nothing about any tool. Retrying does not help. Tell the user that the operator of this proxy must" +
	" rename one of the two servers."

// A Caller is the agent of a request, and the servers that it may see.
type Caller struct {
	// Agent is nil if it is unknown.
	Agent *callability.Agent
	// Scope is the servers that it may see; the zero Scope is none.
	Scope callability.Scope
}

// A Gateway answers agents. Its fields are set before it is used, and not changed afterwards.
type Gateway struct {
	// Inventory has the servers and tools.
	Inventory *callability.Inventory
	// Policy returns the policy in effect; nil if there is none, and then nothing is called.
	Policy func() *callability.Policy
	// Caller says who asks.
	Caller func(context.Context, *mcp.CallToolRequest) Caller
	// Search finds tools among these and no others, best first. A statistic over other tools would tell of them.
	Search func(query string, tools []Document) []string
	// Call calls a tool of an upstream server.
	Call func(ctx context.Context, server, tool string, arguments json.RawMessage) (*mcp.CallToolResult, error)

	// hasDuplicate says whether two tools had the same qualified name when an agent was last answered.
	hasDuplicate atomic.Bool
}

// A Document is what a search may look at of one tool. It is an alias, so that a search needs no import of this package.
type Document = struct{ Name, Description string }

// NewServer returns an MCP server with the tools of the gateway, for any transport.
func (g *Gateway) NewServer(implementation *mcp.Implementation) *mcp.Server {
	server := mcp.NewServer(implementation, nil)
	server.AddTool(&mcp.Tool{
		Name:        DiscoveryTool,
		Description: "Find tools by what they do. Call them by `" + CallTool + "`. " + callability.IncludeDisabledSentence,
		InputSchema: json.RawMessage(`{"type":"object","required":["query"],"properties":{"query":{"type":"string"},` +
			`"limit":{"type":"integer","minimum":1,"maximum":100,"default":15},"include_disabled":` +
			callability.IncludeDisabledSchema + `}}`),
	}, g.discover)
	server.AddTool(&mcp.Tool{
		Name:        CallTool,
		Description: "Call a tool by the name that `" + DiscoveryTool + "` returned.",
		InputSchema: json.RawMessage(`{"type":"object","required":["name"],"properties":{"name":{"type":"string"},` +
			`"arguments":{"type":"object"}}}`),
	}, g.call)
	server.AddTool(&mcp.Tool{
		Name:        ServersTool,
		Description: "List the servers, with the number of tools that can be called, and by reason of those that cannot.",
		InputSchema: json.RawMessage(`{"type":"object"}`),
	}, g.servers)
	return server
}

// judge returns what was decided for a caller, or the result if nothing could be.
func (g *Gateway) judge(ctx context.Context, policy *callability.Policy, caller Caller) (*callability.Judgement, *mcp.CallToolResult) {
	judgement, err := g.Inventory.Judge(policy, caller.Agent, caller.Scope)
	isDuplicate := errors.Is(err, callability.ErrDuplicateTool)
	if !g.hasDuplicate.Swap(isDuplicate) && isDuplicate {
		g.Inventory.Hooks.Error(ctx, "duplicate_tool")
	}
	switch {
	case isDuplicate:
		return nil, Result(callability.Result{Text: duplicateText, IsError: true})
	case err != nil:
		return nil, Result(callability.Unavailable("no policy is in effect"))
	}
	return judgement, nil
}

func (g *Gateway) discover(ctx context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	arguments, err := callability.CheckArguments(request.Params.Arguments)
	var invalid *callability.InvalidArgument
	if errors.As(err, &invalid) {
		return Result(invalid.Result()), nil
	}
	caller := g.Caller(ctx, request)
	judgement, failed := g.judge(ctx, g.Policy(), caller)
	if failed != nil {
		return failed, nil
	}
	result, err := judgement.Discovery(callability.Discovery{
		Query:           arguments.Query,
		Limit:           arguments.Limit,
		IncludeDisabled: arguments.IncludeDisabled,
		Found:           g.Search(arguments.Query, documents(judgement, judgement.CallableNames())),
		FoundLocked:     g.Search(arguments.Query, documents(judgement, judgement.LockedNames())),
	})
	if err != nil {
		return nil, err
	}
	return Result(result), nil
}

func documents(judgement *callability.Judgement, names []string) []Document {
	found := make([]Document, len(names))
	for place, name := range names {
		found[place].Name = name
		if text, known := judgement.Text(name); known && text.Description != nil {
			found[place].Description = *text.Description
		}
	}
	return found
}

func (g *Gateway) call(ctx context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var arguments callArguments
	if wrong := arguments.read(request.Params.Arguments); wrong != "" {
		return Result(callability.Result{Text: "Not done: " + wrong + ".", IsError: true}), nil
	}
	caller := g.Caller(ctx, request)
	policy := g.Policy()
	judgement, failed := g.judge(ctx, policy, caller)
	if failed != nil {
		return failed, nil
	}
	adapter := g.Inventory.Adapter
	server, tool, found := judgement.Split(arguments.Name)
	if !found {
		return Result(adapter.UnknownTool(arguments.Name, judgement.CallableNames())), nil
	}
	verdict := policy.Decide(caller.Agent, g.Inventory.Tool(server, tool))
	if result, rejected := adapter.Rejection(verdict.Answer(), server, tool, g.Inventory.Refusal(server, tool)); rejected {
		return Result(result), nil
	}
	return g.Call(ctx, server, tool, arguments.Arguments)
}

type callArguments struct {
	Name      string
	Arguments json.RawMessage
}

// read returns what is wrong with the arguments of a call; empty: nothing.
func (a *callArguments) read(text json.RawMessage) string {
	var given struct{ Name, Arguments json.RawMessage }
	if len(text) > 0 && json.Unmarshal(text, &given) != nil {
		return "the arguments must be an object"
	}
	if json.Unmarshal(given.Name, &a.Name) != nil || a.Name == "" {
		return "`name` must be text, and is empty or not given"
	}
	if string(given.Arguments) == "null" {
		given.Arguments = nil
	}
	if a.Arguments = given.Arguments; len(a.Arguments) > 0 && a.Arguments[0] != '{' {
		return "`arguments` must be an object"
	}
	return ""
}

func (g *Gateway) servers(ctx context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	caller := g.Caller(ctx, request)
	judgement, failed := g.judge(ctx, g.Policy(), caller)
	if failed != nil {
		return failed, nil
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
	return Result(callability.Result{Text: string(text), StructuredContent: text}), err
}

// Result is a result of the adapter as the SDK has it.
func Result(result callability.Result) *mcp.CallToolResult {
	found := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: result.Text}}, IsError: result.IsError}
	if result.StructuredContent != nil {
		found.StructuredContent = json.RawMessage(result.StructuredContent)
	}
	return found
}

// Entry is a tool of an upstream server for an inventory, with the facts that its definition states. The facts that the
// proxy knows are given: its annotations are taken from the definition.
func Entry(tool *mcp.Tool, facts callability.ToolFacts) (callability.ToolEntry, error) {
	facts.Annotations = &callability.Annotations{}
	entry := callability.ToolEntry{Name: tool.Name}
	if hints := tool.Annotations; hints != nil {
		facts.Annotations = &callability.Annotations{
			ReadOnly: &hints.ReadOnlyHint, Destructive: hints.DestructiveHint, Idempotent: &hints.IdempotentHint,
			OpenWorld: hints.OpenWorldHint,
		}
		encoded, err := json.Marshal(annotations{
			hints.DestructiveHint, hints.IdempotentHint, hints.OpenWorldHint, hints.ReadOnlyHint, hints.Title,
		})
		if err != nil {
			return entry, err
		}
		entry.Text.Annotations = encoded
	}
	if tool.Description != "" {
		description := strings.Clone(tool.Description)
		entry.Text.Description = &description
	}
	schema, err := json.Marshal(tool.InputSchema)
	entry.Text.InputSchema, entry.Facts = schema, facts
	return entry, err
}

// annotations leave out a hint that has MCP's default: the SDK does not know whether the upstream gave it.
type annotations struct {
	Destructive *bool  `json:"destructiveHint,omitempty"`
	Idempotent  bool   `json:"idempotentHint,omitempty"`
	OpenWorld   *bool  `json:"openWorldHint,omitempty"`
	ReadOnly    bool   `json:"readOnlyHint,omitempty"`
	Title       string `json:"title,omitempty"`
}
