package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/mark3labs"
	"github.com/callability/callability/clients/go/shipped"
)

// A guard decides what agents see and call.
type guard struct {
	store     *store
	inventory callability.Inventory
	policy    func() *callability.Policy
	scope     callability.Scope
}

func newGuard(stored *store) *guard {
	return &guard{store: stored, policy: shipped.Policy, scope: callability.AllServers()}
}

// agent is the one that the proxy serves: over stdio, it is known and has no name.
var agent = callability.NewAgent(callability.AgentFacts{Labels: callability.NoLabels()})

// sync puts into the inventory what the storage has. Call it after each change: what is equal is not decided again.
func (g *guard) sync() error {
	var wrong []error
	g.store.each(func(server string, record serverRecord, tools []toolRecord) {
		var entries []callability.ToolEntry
		for _, tool := range tools {
			entries = append(entries, callability.ToolEntry{
				Name: tool.Name, Facts: factsOf(tool), Text: callability.ToolText{Description: &tool.Description}})
		}
		wrong = append(wrong, g.inventory.PutServer(server, callability.ServerFacts{
			Enabled: callability.Known(record.Enabled), Quarantined: callability.Known(record.Quarantined), Labels: callability.NoLabels(),
		}), g.inventory.Replace(server, entries))
	})
	return errors.Join(wrong...)
}

func factsOf(tool toolRecord) callability.ToolFacts {
	facts := callability.ToolFacts{
		ConfigDenied: callability.Known(tool.Denied), Approval: callability.NoRecord(),
		Annotations: &callability.Annotations{}, Labels: callability.NoLabels(),
	}
	status := map[string]callability.ApprovalStatus{"": callability.ApprovalApproved, "approved": callability.ApprovalApproved,
		"pending": callability.ApprovalPending, "changed": callability.ApprovalChanged}
	switch {
	case tool.Damaged:
		facts.Approval = callability.Approval{}
	case tool.Disabled || tool.Approval != "":
		facts.Approval = callability.Record(callability.Known(tool.Disabled), status[tool.Approval])
	}
	return facts
}

// discovery defines the tool that finds tools.
func (g *guard) discovery() mcp.Tool {
	description := "Find tools by what they do. " + callability.IncludeDisabledSentence
	return mcp.NewToolWithRawSchema("retrieve_tools", description, g.inventory.Adapter.DiscoverySchema())
}

// discover answers with the proxy's own compact entries.
func (g *guard) discover(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	raw, err := mark3labs.Arguments(request)
	if err != nil {
		return nil, err
	}
	arguments, err := g.inventory.Adapter.Arguments(raw)
	if invalid := (*callability.InvalidArgument)(nil); errors.As(err, &invalid) {
		return mark3labs.Result(invalid.Result()), nil
	}
	judgement, err := g.inventory.Judge(ctx, g.policy(), agent, g.scope)
	if err != nil {
		return mark3labs.Result(callability.Unavailable("no policy is in effect")), nil
	}
	names := g.store.search(arguments.Query, judgement.CallableNames())
	found := answer{Tools: g.entries(names[:min(len(names), arguments.Limit)])}
	found.Total = len(found.Tools)
	locked := judgement.Locked(callability.Discovery{
		Query: arguments.Query, Limit: arguments.Limit, FoundLocked: g.store.search(arguments.Query, judgement.LockedNames()),
	})
	switch {
	case arguments.IncludeDisabled && locked.Total > 0:
		found.Remediation = map[string]string{}
		for _, each := range locked.Shown {
			found.Disabled = append(found.Disabled, compactEntry{each.Name, each.Server, each.Description, each.Status.String()})
		}
		for _, each := range locked.Locks {
			found.Remediation[each.Status.String()] = each.Text
		}
		if locked.Total > len(locked.Shown) {
			found.DisabledTotal = locked.Total
		}
	case found.Total == 0:
		found.Notice = locked.Notice
	}
	text, err := json.Marshal(found)
	return mark3labs.Result(callability.Result{Text: string(text), StructuredContent: text}), err
}

// decide returns what the agent reads in place of a call; nil: call the tool.
func (g *guard) decide(ctx context.Context, name string) *mcp.CallToolResult {
	if decision := g.inventory.Decide(ctx, g.policy(), agent, g.scope, name); !decision.Callable() {
		return mark3labs.Result(*decision.Rejection)
	}
	return nil
}

// lists reports whether the direct listing has a tool.
func (g *guard) lists(ctx context.Context, name string) bool {
	judgement, err := g.inventory.Judge(ctx, g.policy(), agent, g.scope)
	return err == nil && judgement.Callable(name)
}
