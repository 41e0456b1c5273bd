// Package callabilitytest checks that an MCP proxy keeps the laws of callability, in the proxy's own tests.
//
//	func TestConformance(t *testing.T) {
//		callabilitytest.Run(t, policy, func(t *testing.T, inventory callabilitytest.Inventory) callabilitytest.Proxy { … })
//	}
package callabilitytest

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/callability/callability/clients/go/callability"
)

// An Inventory is what a proxy under test has behind it.
type Inventory struct {
	// Policy is the policy in effect; nil: there is none.
	Policy *callability.Policy
	// Servers are its upstream servers.
	Servers []Server
	// Scope is the servers that the agent of the test may see.
	Scope callability.Scope
}

// A Server is an upstream server with its tools.
type Server struct {
	Name  string
	Facts callability.ServerFacts
	Tools []Tool
}

// A Tool is a tool of an upstream server. When it is called, it answers.
type Tool struct {
	Name, Description string
	Facts             callability.ToolFacts
}

// A Proxy is a proxy under test, as its agent sees it.
type Proxy interface {
	// Discover calls the discovery tool with some arguments, and returns the MCP result as JSON.
	Discover(ctx context.Context, arguments json.RawMessage) (json.RawMessage, error)
	// Call calls a tool by its qualified name, and returns the MCP result as JSON.
	Call(ctx context.Context, name string) (json.RawMessage, error)
	// Qualified is the name by which the agent knows a tool.
	Qualified(server, tool string) string
	// Called counts the calls that have reached an upstream server.
	Called() int
}

// A Start starts the proxy under test with an inventory. It ends it by t.Cleanup.
type Start func(t *testing.T, inventory Inventory) Proxy

// A result is an MCP tool result.
type result struct {
	IsError bool
	Content []struct{ Type, Text string }
	// StructuredContent is kept as it was written.
	StructuredContent json.RawMessage
}

// An answer is that of the discovery tool.
type answer struct {
	Tools         []entry
	Total         int
	Disabled      []entry
	DisabledTotal *int `json:"disabled_total"`
	Remediation   map[string]string
	Notice        *string
}

type entry struct {
	Name, Server string
	Description  *string
	Status       string
}

type rejection struct{ Status, Server, Tool, Retry string }

func parsed(t *testing.T, text json.RawMessage, err error) result {
	t.Helper()
	if err != nil {
		t.Fatalf("the agent got a protocol error, and no result: %v", err)
	}
	var found result
	if err := json.Unmarshal(text, &found); err != nil {
		t.Fatalf("found %s, wanted an MCP result: %v", text, err)
	}
	return found
}

func discover(t *testing.T, proxy Proxy, arguments string) (answer, json.RawMessage) {
	t.Helper()
	text, err := proxy.Discover(t.Context(), json.RawMessage(arguments))
	found := parsed(t, text, err)
	if found.IsError {
		t.Fatalf("%s: found the error %s", arguments, text)
	}
	var said answer
	if err := json.Unmarshal(found.StructuredContent, &said); err != nil {
		t.Fatalf("found %s, wanted structured content: %v", text, err)
	}
	var block answer
	if len(found.Content) != 1 || json.Unmarshal([]byte(found.Content[0].Text), &block) != nil || block.Total != said.Total {
		t.Errorf("found %s, wanted the same JSON in one text block", text)
	}
	return said, text
}

func call(t *testing.T, proxy Proxy, name string) (result, json.RawMessage) {
	t.Helper()
	text, err := proxy.Call(t.Context(), name)
	return parsed(t, text, err), text
}
