// Package mcpgo joins callability with the official Go SDK of MCP: a Gateway adds the tools that find tools, call
// them and list servers to an mcp.Server, and decides every call.
package mcpgo

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/gateway"
)

// A Caller is the agent of a request, and the servers that it may see.
type Caller = gateway.Caller

// A Gateway answers agents. Inventory, Policy, Caller and Call must be set: without one of them, AddTools panics. The fields are
// set before the first use, and not changed afterwards.
type Gateway struct {
	gateway.Gateway
	// Caller says who asks.
	Caller func(context.Context, *mcp.CallToolRequest) Caller
	// Call calls a tool of an upstream server. The request is that of the agent, with its session, its headers, its metadata
	// and its progress token; the call is what to send on. Metadata of the protocol itself is about the agent's session alone.
	Call func(ctx context.Context, request *mcp.CallToolRequest, call gateway.Call) (*mcp.CallToolResult, error)
}

// AddTools adds the tools of the gateway to a server.
func (g *Gateway) AddTools(to *mcp.Server) {
	switch {
	case g.Caller == nil:
		panic("mcpgo: the field Caller of the Gateway is not set")
	case g.Call == nil:
		panic("mcpgo: the field Call of the Gateway is not set")
	}
	discovery, call, servers := g.Definitions()
	to.AddTool(definition(discovery), func(ctx context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return Result(g.Discover(ctx, g.Caller(ctx, request), request.Params.Arguments)), nil
	})
	to.AddTool(definition(call), func(ctx context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		call, answer := g.Decide(ctx, g.Caller(ctx, request), request.Params.Arguments)
		if answer != nil {
			return Result(*answer), nil
		}
		return g.Call(ctx, request, call)
	})
	to.AddTool(definition(servers), func(ctx context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return Result(g.Servers(ctx, g.Caller(ctx, request))), nil
	})
}

func definition(tool gateway.Definition) *mcp.Tool {
	return &mcp.Tool{Name: tool.Name, Description: tool.Description, InputSchema: tool.InputSchema}
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
