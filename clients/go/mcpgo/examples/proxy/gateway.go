package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/gateway"
	"github.com/callability/callability/clients/go/mcpgo"
)

// newGateway lists the tools of the servers, and puts the policy of the config into effect.
func newGateway(ctx context.Context, config *config, servers upstreams, log *slog.Logger) (*mcpgo.Gateway, error) {
	policy, err := callability.ReadPolicyFile(config.Policy)
	if err != nil {
		return nil, err
	}
	inventory := &callability.Inventory{Adapter: callability.Adapter{Phrases: map[string]string{
		"enable_server":  "set `disabled` of {server} to false in the config of the proxy",
		"edit_config":    "take {tool} out of `disabled_tools` in the config of the proxy",
		"enable_tool":    "set `disabled` of {tool} of {server} to false in the config of the proxy",
		"approve_tool":   "review {tool} of {server}, then set its `status` to approved in the config of the proxy",
		"release_server": "review {server}, then set `quarantined` to false in the config of the proxy",
	}}}
	for name, each := range config.Servers {
		tools, err := servers.tools(ctx, name)
		if err != nil {
			log.Warn("the tools of a server are not known", "server", name, "error", err)
		}
		entries, err := each.entries(tools)
		if err != nil {
			return nil, fmt.Errorf("server %q: %w", name, err)
		}
		if err := errors.Join(inventory.PutServer(name, each.facts()), inventory.Replace(name, entries)); err != nil {
			log.Warn("not every tool of a server can be called as it was listed", "error", err)
		}
	}
	agents := map[string]*callability.Agent{}
	for _, each := range config.Agents {
		agents[each.Name] = callability.NewAgent(callability.AgentFacts{Name: each.Name, Labels: callability.NoLabels()})
	}
	user := callability.NewAgent(callability.AgentFacts{Labels: callability.NoLabels()})
	return &mcpgo.Gateway{
		Gateway: gateway.Gateway{Inventory: inventory, Policy: func() *callability.Policy { return policy }},
		Caller: func(_ context.Context, request *mcp.CallToolRequest) mcpgo.Caller {
			if request.Extra == nil || request.Extra.Header == nil {
				// Over stdio, the agent is the one that started the proxy.
				return mcpgo.Caller{Agent: user, Scope: callability.AllServers()}
			}
			agent, known := config.agentOf(request.Extra.Header)
			if !known {
				return mcpgo.Caller{}
			}
			return mcpgo.Caller{Agent: agents[agent.Name], Scope: agent.scope()}
		},
		Call: func(ctx context.Context, _ *mcp.CallToolRequest, call gateway.Call) (*mcp.CallToolResult, error) {
			return servers.call(ctx, call.Server, call.Tool, call.Arguments)
		},
	}, nil
}

// scope is what the agent may see: nothing, unless the config says it.
func (a agentConfig) scope() callability.Scope {
	if slices.Contains(a.Servers, "*") {
		return callability.AllServers()
	}
	return callability.Servers(a.Servers...)
}

func (s serverConfig) facts() callability.ServerFacts {
	labels := callability.NoLabels()
	maps.Copy(labels, s.Labels)
	return callability.ServerFacts{
		Enabled: callability.Known(!s.Disabled), Quarantined: callability.Known(s.Quarantined), Labels: labels,
	}
}

// entries are the tools that a server lists, and those that the config names although the server does not list them now.
func (s serverConfig) entries(tools []*mcp.Tool) ([]callability.ToolEntry, error) {
	facts := func(name string) callability.ToolFacts {
		return callability.ToolFacts{
			ConfigDenied: callability.Known(slices.Contains(s.DisabledTools, name)),
			Approval:     s.approval(name),
			Annotations:  &callability.Annotations{},
			Labels:       callability.NoLabels(),
		}
	}
	found := map[string]callability.ToolEntry{}
	for _, name := range slices.Concat(s.DisabledTools, slices.Sorted(maps.Keys(s.Approvals))) {
		found[name] = callability.ToolEntry{Name: name, Facts: facts(name)}
	}
	for _, tool := range tools {
		entry, err := mcpgo.Entry(tool, facts(tool.Name))
		if err != nil {
			return nil, err
		}
		found[tool.Name] = entry
	}
	return slices.Collect(maps.Values(found)), nil
}

// approval is what the user has said of a tool. A status that the proxy does not know locks until somebody corrects it.
func (s serverConfig) approval(name string) callability.Approval {
	record, ok := s.Approvals[name]
	if !ok {
		return callability.NoRecord()
	}
	status := map[string]callability.ApprovalStatus{
		"": callability.ApprovalApproved, "approved": callability.ApprovalApproved,
		"pending": callability.ApprovalPending, "changed": callability.ApprovalChanged,
	}[record.Status]
	return callability.Record(callability.Known(record.Disabled), cmp.Or(status, callability.ApprovalOther))
}
