// Proxy is an MCP proxy on github.com/mark3labs/mcp-go with a storage, a search and an answer of its own, which lists the
// tools of its servers directly too. All that it knows of callability is in callability.go.
//
//	go run . command of a server
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// An answer is that of the discovery tool.
type answer struct {
	Tools         []compactEntry    `json:"tools"`
	Total         int               `json:"total"`
	Disabled      []compactEntry    `json:"disabled,omitempty"`
	DisabledTotal int               `json:"disabled_total,omitempty"`
	Remediation   map[string]string `json:"remediation,omitempty"`
	Notice        string            `json:"notice,omitempty"`
}

func (g *guard) entries(names []string) []compactEntry {
	found := []compactEntry{}
	for _, name := range names {
		record, _ := g.store.tool(name)
		found = append(found, compactEntry{Name: name, Server: record.Server, Description: &record.Description})
	}
	return found
}

// An upstream calls a tool of a server.
type upstream func(ctx context.Context, server, tool string, arguments any) (*mcp.CallToolResult, error)

// newServer serves the tools of the storage: by search, and each under its own name.
func newServer(g *guard, call upstream) *server.MCPServer {
	serving := server.NewMCPServer("proxy", "1", server.WithToolFilter(func(ctx context.Context, tools []mcp.Tool) []mcp.Tool {
		var listed []mcp.Tool
		for _, tool := range tools {
			if _, stored := g.store.tool(tool.Name); !stored || g.lists(ctx, tool.Name) {
				listed = append(listed, tool)
			}
		}
		return listed
	}))
	serving.AddTool(g.discovery(), g.discover)
	guarded := func(ctx context.Context, name string, arguments any) (*mcp.CallToolResult, error) {
		if rejection := g.decide(ctx, name); rejection != nil {
			return rejection, nil
		}
		record, _ := g.store.tool(name)
		return call(ctx, record.Server, record.Name, arguments)
	}
	serving.AddTool(mcp.NewTool("call_tool", mcp.WithString("name", mcp.Required()), mcp.WithObject("arguments")),
		func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return guarded(ctx, request.GetString("name", ""), request.GetArguments()["arguments"])
		})
	g.store.each(func(_ string, _ serverRecord, tools []toolRecord) {
		for _, tool := range tools {
			serving.AddTool(mcp.NewToolWithRawSchema(tool.qualified(), tool.Description, tool.Schema),
				func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					return guarded(ctx, tool.qualified(), request.GetArguments())
				})
		}
	})
	return serving
}

func main() {
	if len(os.Args) < 2 {
		log.Fatal("usage: proxy COMMAND [ARGUMENT]...")
	}
	ctx := context.Background()
	behind, err := client.NewStdioMCPClient(os.Args[1], nil, os.Args[2:]...)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := behind.Initialize(ctx, mcp.InitializeRequest{}); err != nil {
		log.Fatal(err)
	}
	listed, err := behind.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		log.Fatal(err)
	}
	stored := &store{}
	stored.putServer("server", serverRecord{Enabled: true})
	for _, tool := range listed.Tools {
		schema, err := json.Marshal(tool.InputSchema)
		if err != nil {
			log.Fatal(err)
		}
		stored.putTool(toolRecord{Server: "server", Name: tool.Name, Description: tool.Description, Schema: schema})
	}
	g := newGuard(stored)
	if err := g.sync(); err != nil {
		log.Print(err)
	}
	call := func(ctx context.Context, _, tool string, arguments any) (*mcp.CallToolResult, error) {
		return behind.CallTool(ctx, mcp.CallToolRequest{Params: mcp.CallToolParams{Name: tool, Arguments: arguments}})
	}
	if err := server.ServeStdio(newServer(g, call)); err != nil {
		log.Fatal(err)
	}
}
