// Package mark3labs joins callability with github.com/mark3labs/mcp-go: a Gateway adds the tools that find tools, call them
// and list servers to a server, and decides every call. A proxy that has such tools of its own needs Result and Entry alone.
package mark3labs

import (
	"context"
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

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
	Caller func(context.Context, mcp.CallToolRequest) Caller
	// Call calls a tool of an upstream server. The request is that of the agent, with its headers, its metadata and its
	// progress token; the call is what to send on.
	Call func(ctx context.Context, request mcp.CallToolRequest, call gateway.Call) (*mcp.CallToolResult, error)
}

// AddTools adds the tools of the gateway to a server.
func (g *Gateway) AddTools(to *server.MCPServer) {
	switch {
	case g.Caller == nil:
		panic("mark3labs: the field Caller of the Gateway is not set")
	case g.Call == nil:
		panic("mark3labs: the field Call of the Gateway is not set")
	}
	discovery, call, servers := g.Definitions()
	to.AddTool(definition(discovery), func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		arguments, err := Arguments(request)
		if err != nil {
			return nil, err
		}
		return Result(g.Discover(ctx, g.Caller(ctx, request), arguments)), nil
	})
	to.AddTool(definition(call), func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		arguments, err := Arguments(request)
		if err != nil {
			return nil, err
		}
		call, answer := g.Decide(ctx, g.Caller(ctx, request), arguments)
		if answer != nil {
			return Result(*answer), nil
		}
		return g.Call(ctx, request, call)
	})
	to.AddTool(definition(servers), func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return Result(g.Servers(ctx, g.Caller(ctx, request))), nil
	})
}

func definition(tool gateway.Definition) mcp.Tool {
	return mcp.NewToolWithRawSchema(tool.Name, tool.Description, tool.InputSchema)
}

// Arguments are the arguments of a call as the agent sent them, for Adapter.Arguments; without any, they are null.
func Arguments(request mcp.CallToolRequest) (json.RawMessage, error) {
	if len(request.Params.RawArguments) > 0 {
		return request.Params.RawArguments, nil
	}
	return json.Marshal(request.Params.Arguments)
}

// Result is a result of the adapter as the library has it.
func Result(result callability.Result) *mcp.CallToolResult {
	return &mcp.CallToolResult{
		Content: []mcp.Content{mcp.NewTextContent(result.Text)}, RawStructuredContent: result.StructuredContent,
		IsError: result.IsError,
	}
}

// Entry is a tool of an upstream server for an inventory, with the facts that its definition states. The facts that the
// proxy knows are given: its annotations are taken from the definition.
func Entry(tool mcp.Tool, facts callability.ToolFacts) (callability.ToolEntry, error) {
	hints := tool.Annotations
	facts.Annotations = &callability.Annotations{
		ReadOnly: hints.ReadOnlyHint, Destructive: hints.DestructiveHint, Idempotent: hints.IdempotentHint,
		OpenWorld: hints.OpenWorldHint,
	}
	entry := callability.ToolEntry{Name: tool.Name, Facts: facts}
	if tool.Description != "" {
		entry.Text.Description = &tool.Description
	}
	if hints != (mcp.ToolAnnotation{}) {
		encoded, err := json.Marshal(hints)
		if err != nil {
			return entry, err
		}
		entry.Text.Annotations = encoded
	}
	if tool.RawInputSchema != nil {
		entry.Text.InputSchema = tool.RawInputSchema
		return entry, nil
	}
	schema, err := json.Marshal(tool.InputSchema)
	entry.Text.InputSchema = schema
	return entry, err
}
