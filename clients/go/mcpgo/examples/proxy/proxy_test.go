package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/callabilitytest"
	"github.com/callability/callability/clients/go/gateway"
	"github.com/callability/callability/clients/go/internal/contractjson"
	"github.com/callability/callability/clients/go/mcpgo"
)

// An agent is a real MCP session with the proxy.
type agent struct {
	session *mcp.ClientSession
	called  *atomic.Int64
}

func (a agent) tool(ctx context.Context, name string, arguments any) (json.RawMessage, error) {
	result, err := a.session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		return nil, err
	}
	return json.Marshal(result)
}

func (a agent) Discover(ctx context.Context, arguments json.RawMessage) (json.RawMessage, error) {
	return a.tool(ctx, gateway.DiscoveryTool, arguments)
}

func (a agent) Call(ctx context.Context, name string) (json.RawMessage, error) {
	return a.tool(ctx, gateway.CallTool, map[string]any{"name": name, "arguments": map[string]any{}})
}

func (a agent) Qualified(server, tool string) string {
	return callability.Adapter{}.Qualified(server, tool)
}

func (a agent) Called() int { return int(a.called.Load()) }

// upstream is a real MCP server in this process, with the tools of an inventory.
func upstream(t *testing.T, server callabilitytest.Server, called *atomic.Int64) *mcp.ClientSession {
	t.Helper()
	real := mcp.NewServer(implementation, nil)
	for _, tool := range server.Tools {
		real.AddTool(&mcp.Tool{Name: tool.Name, Description: tool.Description, InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				called.Add(1)
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil
			})
	}
	return connected(t, real)
}

func connected(t *testing.T, server *mcp.Server) *mcp.ClientSession {
	t.Helper()
	ours, theirs := mcp.NewInMemoryTransports()
	serving, err := server.Connect(t.Context(), ours, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = serving.Close() })
	return session(t, theirs)
}

func session(t *testing.T, transport mcp.Transport) *mcp.ClientSession {
	t.Helper()
	found, err := mcp.NewClient(implementation, nil).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = found.Close() })
	return found
}

// gatewayOf is the gateway of the proxy with the inventory of a law.
func gatewayOf(t *testing.T, wanted callabilitytest.Inventory, called *atomic.Int64) *mcpgo.Gateway {
	t.Helper()
	inventory, servers := &callability.Inventory{}, upstreams{}
	for _, server := range wanted.Servers {
		servers[server.Name] = upstream(t, server, called)
		report(t, inventory.PutServer(server.Name, server.Facts))
		for _, tool := range server.Tools {
			listed := &mcp.Tool{Name: tool.Name, Description: tool.Description, InputSchema: map[string]any{"type": "object"}}
			entry, err := mcpgo.Entry(listed, tool.Facts)
			if err != nil {
				t.Fatal(err)
			}
			report(t, inventory.Put(server.Name, entry))
		}
	}
	return &mcpgo.Gateway{
		Gateway: gateway.Gateway{Inventory: inventory, Policy: func() *callability.Policy { return wanted.Policy }},
		Caller: func(context.Context, *mcp.CallToolRequest) mcpgo.Caller {
			return mcpgo.Caller{Agent: callability.NewAgent(callability.AgentFacts{Labels: callability.NoLabels()}), Scope: wanted.Scope}
		},
		Call: func(ctx context.Context, _ *mcp.CallToolRequest, call gateway.Call) (*mcp.CallToolResult, error) {
			return servers.call(ctx, call.Server, call.Tool, call.Arguments)
		},
	}
}

func serving(served *mcpgo.Gateway) *mcp.Server {
	server := mcp.NewServer(implementation, nil)
	served.AddTools(server)
	return server
}

// report logs what is wrong with an item, which is held back.
func report(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Log(err)
	}
}

func policy(t *testing.T) *callability.Policy {
	t.Helper()
	found, err := callability.ReadPolicyFile(bundle(t))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func bundle(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "..", "shipped", "policy.bundle"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skip("the shipped policy is in a checkout of the repository alone")
	}
	return path
}

func TestTheProxyKeepsEveryLawInOneProcess(t *testing.T) {
	callabilitytest.Run(t, policy(t), func(t *testing.T, inventory callabilitytest.Inventory) callabilitytest.Proxy {
		called := new(atomic.Int64)
		return agent{connected(t, serving(gatewayOf(t, inventory, called))), called}
	})
}

func TestTheProxyKeepsEveryLawOverHTTP(t *testing.T) {
	callabilitytest.Run(t, policy(t), func(t *testing.T, inventory callabilitytest.Inventory) callabilitytest.Proxy {
		called := new(atomic.Int64)
		config := &config{Agents: map[string]agentConfig{"secret": {Name: "assistant"}}}
		server := httptest.NewServer(config.handler(serving(gatewayOf(t, inventory, called))))
		t.Cleanup(server.Close)
		client := &http.Client{Transport: withToken{}}
		return agent{session(t, &mcp.StreamableClientTransport{Endpoint: server.URL, HTTPClient: client}), called}
	})
}

type withToken struct{}

func (withToken) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer secret")
	return http.DefaultTransport.RoundTrip(request)
}

// TestTheProxyAnswersTheVectorsOfTheContract calls the tool of each vector about one tool, with its facts.
func TestTheProxyAnswersTheVectorsOfTheContract(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "..", "tests", "vectors", "calls.json"))
	if err != nil {
		t.Skip("the golden vectors are in a checkout of the repository alone")
	}
	var vectors []struct {
		Name, Call string
		Request    json.RawMessage
		Reply      *struct {
			Verdict struct{ Status, Retry string }
		}
	}
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	called, answered := new(atomic.Int64), 0
	for _, each := range vectors {
		if each.Call != "CheckTool" || each.Reply == nil {
			continue
		}
		request, err := contractjson.Parse(each.Request)
		if err != nil {
			t.Fatal(err)
		}
		who, tool := request.Handles()
		served := gatewayOf(t, callabilitytest.Inventory{Policy: policy(t), Scope: callability.AllServers(), Servers: []callabilitytest.Server{{
			Name: tool.Server().Name(), Facts: tool.Server().Facts(),
			Tools: []callabilitytest.Tool{{Name: tool.Name(), Facts: tool.Facts()}},
		}}}, called)
		// Entry takes annotations from a definition, where a vector gives them as facts.
		report(t, served.Inventory.Put(tool.Server().Name(), callability.ToolEntry{Name: tool.Name(), Facts: tool.Facts()}))
		served.Caller = func(context.Context, *mcp.CallToolRequest) mcpgo.Caller {
			return mcpgo.Caller{Agent: who, Scope: callability.AllServers()}
		}
		before := called.Load()
		found := agent{connected(t, serving(served)), called}
		result, err := found.Call(t.Context(), found.Qualified(tool.Server().Name(), tool.Name()))
		var said struct {
			StructuredContent struct{ Status, Retry string }
		}
		if err != nil || json.Unmarshal(result, &said) != nil {
			t.Fatalf("%s: found %s and %v", each.Name, result, err)
		}
		status, retry := "TOOL_STATUS_"+strings.ToUpper(said.StructuredContent.Status), "RETRY_"+strings.ToUpper(said.StructuredContent.Retry)
		wanted := each.Reply.Verdict
		if isCalled := called.Load() > before; isCalled != (wanted.Status == "TOOL_STATUS_CALLABLE") ||
			!isCalled && (status != wanted.Status || wanted.Retry != "" && retry != wanted.Retry) {
			t.Errorf("%s: found %s, wanted %+v", each.Name, result, wanted)
		}
		answered++
	}
	if answered < 7 {
		t.Errorf("found %d vectors about one tool, wanted at least 7", answered)
	}
}

func TestArgumentsThatAreNullAreLeftOut(t *testing.T) {
	called := new(atomic.Int64)
	facts := callability.ToolFacts{
		ConfigDenied: callability.False, Approval: callability.NoRecord(), Annotations: &callability.Annotations{},
	}
	served := gatewayOf(t, callabilitytest.Inventory{Policy: policy(t), Scope: callability.AllServers(), Servers: []callabilitytest.Server{{
		Name:  "files",
		Facts: callability.ServerFacts{Enabled: callability.True, Quarantined: callability.False, Labels: callability.NoLabels()},
		Tools: []callabilitytest.Tool{{Name: "list", Facts: facts}},
	}}}, called)
	proxy := agent{connected(t, serving(served)), called}
	for text, wanted := range map[string]string{
		`{"name": "files:list", "arguments": null}`: `"text":"done"`,
		`{"name": "files:list"}`:                    `"text":"done"`,
		`{"name": "files:list", "arguments": []}`:   "`arguments` must be an object",
		`{"name": "files:list", "arguments": "{}"}`: "`arguments` must be an object",
	} {
		result, err := proxy.tool(t.Context(), gateway.CallTool, json.RawMessage(text))
		if err != nil || !strings.Contains(string(result), wanted) {
			t.Errorf("%s: found %s and %v, wanted %s", text, result, err, wanted)
		}
	}
	if proxy.Called() != 2 {
		t.Errorf("found %d calls, wanted 2", proxy.Called())
	}
}

func TestTwoToolsWithOneQualifiedNameCostThoseTwo(t *testing.T) {
	called := &atomic.Int64{}
	open := callability.ServerFacts{Enabled: callability.True, Quarantined: callability.False, Labels: callability.NoLabels()}
	facts := callability.ToolFacts{ConfigDenied: callability.False, Approval: callability.NoRecord()}
	proxy := agent{connected(t, serving(gatewayOf(t, callabilitytest.Inventory{Policy: policy(t), Scope: callability.AllServers(), Servers: []callabilitytest.Server{
		{Name: "files", Facts: open, Tools: []callabilitytest.Tool{{Name: "text:read", Facts: facts}}},
		{Name: "files:text", Facts: open, Tools: []callabilitytest.Tool{{Name: "read", Facts: facts}, {Name: "write", Facts: facts}}},
	}}, called))), called}
	result, err := proxy.Call(t.Context(), "files:text:read")
	if err != nil || !strings.Contains(string(result), "two tools have the same qualified name") || strings.Contains(string(result), "policy service") {
		t.Errorf("found %s, %v", result, err)
	}
	if result, err = proxy.Call(t.Context(), "files:text:write"); err != nil || !strings.Contains(string(result), "done") || called.Load() != 1 {
		t.Errorf("found %s, %v and %d calls", result, err, called.Load())
	}
}

func TestAnAgentWithoutATokenIsNotServed(t *testing.T) {
	config := &config{Agents: map[string]agentConfig{"secret": {Name: "assistant"}}}
	server := httptest.NewServer(config.handler(mcp.NewServer(implementation, nil)))
	defer server.Close()
	for _, header := range []string{"", "Bearer ", "Bearer wrong", "secret"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", header)
		reply, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = reply.Body.Close()
		if header != "secret" && reply.StatusCode != http.StatusUnauthorized {
			t.Errorf("%q: found %s", header, reply.Status)
		}
	}
}

// TestMain is also the upstream server that the next test starts as a process.
func TestMain(m *testing.M) {
	if os.Getenv("EXAMPLE_UPSTREAM") == "" {
		os.Exit(m.Run())
	}
	server := mcp.NewServer(implementation, nil)
	for _, name := range []string{"read_note", "erase_note"} {
		server.AddTool(&mcp.Tool{Name: name, Description: name, InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done " + name}}}, nil
			})
	}
	if err := server.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		os.Exit(1)
	}
}

func TestTheProxyOfAConfigCallsServersOverStdioAndHTTP(t *testing.T) {
	t.Setenv("EXAMPLE_UPSTREAM", "1")
	web := mcp.NewServer(implementation, nil)
	web.AddTool(&mcp.Tool{Name: "fetch", Description: "Fetch a page.", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done fetch"}}}, nil
		})
	remote := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return web }, nil))
	t.Cleanup(remote.Close)
	config := &config{Policy: bundle(t), Servers: map[string]serverConfig{
		"notes": {Command: os.Args[0], DisabledTools: []string{"erase_note"}},
		"web":   {URL: remote.URL},
		"down":  {Command: "no-such-program", Approvals: map[string]approvalConfig{"read_note": {}, "other": {Status: "x"}}},
		"off":   {Command: "no-such-program", Disabled: true, DisabledTools: []string{"read_note"}},
	}}
	log := discard()
	servers := connect(t.Context(), config.Servers, log)
	t.Cleanup(servers.close)
	served, err := newGateway(t.Context(), config, servers, log)
	if err != nil {
		t.Fatal(err)
	}
	found := agent{session: connected(t, serving(served))}
	for name, wanted := range map[string]string{
		"notes:read_note":  `done read_note`,
		"web:fetch":        `done fetch`,
		"notes:erase_note": `"status":"disabled_by_config"`,
		"down:read_note":   `\"down\" is not connected`,
		"down:other":       `"lifted_by":"undetermined","retry":"never"`,
		"off:read_note":    `"status":"server_disabled"`,
		"notes:read":       `Similar names: \"notes:read_note\"`,
	} {
		text, err := found.Call(t.Context(), name)
		if err != nil || !strings.Contains(string(text), wanted) && !strings.Contains(string(text), strings.ReplaceAll(wanted, `\"`, `\\\"`)) {
			t.Errorf("%s: found %s and %v, wanted %s", name, text, err, wanted)
		}
	}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
