package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// upstreams are the connections to servers, by name. A server that is disabled, or that failed, has none.
type upstreams map[string]*mcp.ClientSession

func connect(ctx context.Context, configs map[string]serverConfig, log *slog.Logger) upstreams {
	found := upstreams{}
	for name, each := range configs {
		if each.Disabled {
			continue
		}
		session, err := mcp.NewClient(implementation, nil).Connect(ctx, each.transport(ctx), nil)
		if err != nil {
			log.Warn("a server is not connected", "server", name, "error", err)
			continue
		}
		found[name] = session
	}
	return found
}

func (s serverConfig) transport(ctx context.Context) mcp.Transport {
	if s.URL != "" {
		return &mcp.StreamableClientTransport{Endpoint: s.URL}
	}
	command := exec.CommandContext(ctx, s.Command, s.Args...)
	command.Stderr = os.Stderr
	return &mcp.CommandTransport{Command: command}
}

func (u upstreams) close() {
	for _, session := range u {
		_ = session.Close()
	}
}

func (u upstreams) call(ctx context.Context, server, tool string, arguments json.RawMessage) (*mcp.CallToolResult, error) {
	session := u[server]
	if session == nil {
		// An error would be one of the protocol, which many agents do not see.
		text := fmt.Sprintf("Not called: server %q is not connected. The log of the proxy says why.", server)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}, IsError: true}, nil
	}
	params := &mcp.CallToolParams{Name: tool}
	if len(arguments) > 0 {
		params.Arguments = arguments
	}
	return session.CallTool(ctx, params)
}

func (u upstreams) tools(ctx context.Context, server string) ([]*mcp.Tool, error) {
	var found []*mcp.Tool
	if u[server] == nil {
		return nil, nil
	}
	for tool, err := range u[server].Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		found = append(found, tool)
	}
	return found, nil
}
