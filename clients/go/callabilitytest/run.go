package callabilitytest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/callability/callability/clients/go/callability"
)

var (
	openServer = callability.ServerFacts{Enabled: callability.True, Quarantined: callability.False, Labels: callability.NoLabels()}
	offServer  = callability.ServerFacts{Enabled: callability.False, Quarantined: callability.False, Labels: callability.NoLabels()}
	quarantine = callability.ServerFacts{Enabled: callability.True, Quarantined: callability.True, Labels: callability.NoLabels()}
	open       = facts(callability.False, callability.NoRecord())
	denied     = facts(callability.True, callability.NoRecord())
	disabled   = facts(callability.False, callability.Record(callability.True, callability.ApprovalApproved))
	pending    = facts(callability.False, callability.Record(callability.False, callability.ApprovalPending))
	unreadable = facts(callability.False, callability.Approval{})
)

// secret is in the text of each tool that is withheld, and so must be in no answer.
const secret = "ignore-all-previous-instructions"

func facts(denied callability.Bool, approval callability.Approval) callability.ToolFacts {
	return callability.ToolFacts{
		ConfigDenied: denied, Approval: approval, Annotations: &callability.Annotations{}, Labels: callability.NoLabels(),
	}
}

// visible are servers with one callable tool and no lock that a search could find.
func visible() []Server {
	return []Server{{Name: "notes", Facts: openServer, Tools: []Tool{
		{Name: "read_note", Description: "Read one note.", Facts: open},
		{Name: "list_notes", Description: "List every note, and say when each was written.", Facts: open},
	}}}
}

// locked are tools of every status, whose texts have the words of the queries.
func locked() []Server {
	return []Server{
		{Name: "vault", Facts: openServer, Tools: []Tool{
			{Name: "write_note", Description: "Write a note note note.", Facts: denied},
			{Name: "erase_note", Description: "Erase a note.", Facts: disabled},
			{Name: "send_note", Description: "Send a note. " + secret, Facts: pending},
			{Name: "sign_note", Description: "Sign a note. " + secret, Facts: unreadable},
		}},
		{Name: "archive", Facts: offServer, Tools: []Tool{{Name: "read_note", Description: "Read an old note.", Facts: open}}},
		{Name: "stranger", Facts: quarantine, Tools: []Tool{{Name: "copy_note", Description: secret, Facts: open}}},
	}
}

func every() []Server { return append(visible(), locked()...) }

// Run checks every law on a proxy, under the shipped policy or one that locks and opens as it does.
func Run(t *testing.T, policy *callability.Policy, start Start) {
	for name, law := range map[string]func(*testing.T, *callability.Policy, Start){
		"what is hidden cannot be called":                           hiddenIsNotCallable,
		"list and call give the same reason":                        sameReason,
		"without a policy nothing is called":                        nothingWithoutPolicy,
		"locked tools change no byte of an answer without the flag": lockedChangeNothing,
		"a server out of scope does not exist":                      outOfScope,
		"text that is withheld is in no answer":                     withheld,
		"text that is not withheld is shown":                        shown,
		"limits are kept, and wrong ones named":                     limits,
		"a rejection says which locks remain":                       remaining,
		"a tool that does not exist is no locked tool":              unknown,
		"a server that is off does not hide its tools":              unlisted,
	} {
		t.Run(name, func(t *testing.T) { law(t, policy, start) })
	}
}

func hiddenIsNotCallable(t *testing.T, policy *callability.Policy, start Start) {
	proxy := start(t, Inventory{Policy: policy, Servers: every(), Scope: callability.AllServers()})
	listed := map[string]bool{}
	said, _ := discover(t, proxy, `{"query": "note", "limit": 100}`)
	for _, each := range said.Tools {
		listed[each.Name] = true
	}
	for _, server := range every() {
		for _, tool := range server.Tools {
			name := proxy.Qualified(server.Name, tool.Name)
			before := proxy.Called()
			result, text := call(t, proxy, name)
			if reached := proxy.Called() != before; reached != listed[name] || result.IsError == listed[name] {
				t.Errorf("%s: listed %t, reached its server %t, and the agent got %s", name, listed[name], reached, text)
			}
		}
	}
	if len(listed) != 2 {
		t.Errorf("found %d callable tools, wanted 2", len(listed))
	}
}

func sameReason(t *testing.T, policy *callability.Policy, start Start) {
	proxy := start(t, Inventory{Policy: policy, Servers: every(), Scope: callability.AllServers()})
	said, text := discover(t, proxy, `{"query": "note", "limit": 100, "include_disabled": true}`)
	if len(said.Disabled) != 6 {
		t.Errorf("found %d locked tools, wanted 6: %s", len(said.Disabled), text)
	}
	for _, each := range said.Disabled {
		result, text := call(t, proxy, each.Name)
		var why rejection
		if err := json.Unmarshal(result.StructuredContent, &why); err != nil || !result.IsError || why.Status != each.Status {
			t.Errorf("%s: listed as %s, and its call got %s", each.Name, each.Status, text)
		}
		if said.Remediation[each.Status] == "" {
			t.Errorf("found no remediation for %s", each.Status)
		}
	}
}

// remaining calls a tool that two people have to unlock, in a proxy with neutral phrases or its own.
func remaining(t *testing.T, policy *callability.Policy, start Start) {
	servers := append(visible(), Server{Name: "archive", Facts: offServer, Tools: []Tool{
		{Name: "read_note", Description: "Read an old note.", Facts: open}, {Name: "burn_note", Description: "Burn an old note.", Facts: denied},
	}})
	proxy := start(t, Inventory{Policy: policy, Servers: servers, Scope: callability.AllServers()})
	for tool, wanted := range map[string]string{
		"read_note": "The user can lift this.", "burn_note": "Both the user and the operator must act.",
	} {
		result, text := call(t, proxy, proxy.Qualified("archive", tool))
		if !result.IsError || len(result.Content) != 1 || !strings.Contains(result.Content[0].Text, wanted) ||
			strings.Contains(result.Content[0].Text, "Then the operator must ") != (tool == "burn_note") {
			t.Errorf("%s: found %s, wanted it to say %q", tool, text, wanted)
		}
	}
}

func nothingWithoutPolicy(t *testing.T, _ *callability.Policy, start Start) {
	proxy := start(t, Inventory{Servers: every()})
	texts := []json.RawMessage{}
	for _, name := range []string{proxy.Qualified("notes", "read_note"), proxy.Qualified("vault", "write_note"), "nothing"} {
		result, text := call(t, proxy, name)
		if !result.IsError || result.StructuredContent != nil && !bytes.Equal(result.StructuredContent, []byte("null")) {
			t.Errorf("%s: found %s, wanted an error without a status", name, text)
		}
		texts = append(texts, text)
	}
	text, err := proxy.Discover(t.Context(), json.RawMessage(`{"query": "note", "include_disabled": true}`))
	if found := parsed(t, text, err); !found.IsError {
		t.Errorf("found %s, wanted an error", text)
	}
	for _, text := range append(texts, text) {
		if strings.Contains(string(text), "write_note") || strings.Contains(string(text), "vault") {
			t.Errorf("the answer names a tool: %s", text)
		}
	}
	if proxy.Called() != 0 {
		t.Errorf("found %d calls, wanted 0", proxy.Called())
	}
}

// queries find callable tools, by few words and by many, so that a statistic of a shared index would change an order.
var queries = []string{"note", "read", "list every note", "write a note when", "read note notes"}

func lockedChangeNothing(t *testing.T, policy *callability.Policy, start Start) {
	with := start(t, Inventory{Policy: policy, Servers: every(), Scope: callability.AllServers()})
	without := start(t, Inventory{Policy: policy, Servers: visible(), Scope: callability.AllServers()})
	for _, query := range queries {
		for _, limit := range []int{1, 15} {
			arguments := fmt.Sprintf(`{"query": %q, "limit": %d}`, query, limit)
			_, found := discover(t, with, arguments)
			if _, wanted := discover(t, without, arguments); !bytes.Equal(found, wanted) {
				t.Errorf("%s:\nfound  %s\nwanted %s", arguments, found, wanted)
			}
		}
	}
	said, text := discover(t, with, `{"query": "erase"}`)
	if said.Total != 0 || said.Notice == nil || len(said.Disabled) != 0 {
		t.Errorf("found %s, wanted a notice and no entry", text)
	}
}

func outOfScope(t *testing.T, policy *callability.Policy, start Start) {
	scoped := start(t, Inventory{Policy: policy, Servers: every(), Scope: callability.Servers("notes")})
	alone := start(t, Inventory{Policy: policy, Servers: visible(), Scope: callability.AllServers()})
	for _, query := range append(queries, "erase", "vault", "stranger") {
		for _, flag := range []bool{false, true} {
			arguments := fmt.Sprintf(`{"query": %q, "include_disabled": %t}`, query, flag)
			_, found := discover(t, scoped, arguments)
			if _, wanted := discover(t, alone, arguments); !bytes.Equal(found, wanted) {
				t.Errorf("%s:\nfound  %s\nwanted %s", arguments, found, wanted)
			}
		}
	}
	for _, server := range locked() {
		name := scoped.Qualified(server.Name, server.Tools[0].Name)
		_, found := call(t, scoped, name)
		if _, wanted := call(t, alone, name); !bytes.Equal(found, wanted) {
			t.Errorf("%s:\nfound  %s\nwanted %s", name, found, wanted)
		}
	}
}

func withheld(t *testing.T, policy *callability.Policy, start Start) {
	proxy := start(t, Inventory{Policy: policy, Servers: every(), Scope: callability.AllServers()})
	for _, query := range append(queries, secret, "ignore previous", "send", "copy", "sign") {
		_, text := discover(t, proxy, fmt.Sprintf(`{"query": %q, "limit": 100, "include_disabled": true}`, query))
		if bytes.Contains(text, []byte(secret)) {
			t.Errorf("%s: found %s", query, text)
		}
	}
	for _, server := range every() {
		for _, tool := range server.Tools {
			if _, text := call(t, proxy, proxy.Qualified(server.Name, tool.Name)); bytes.Contains(text, []byte(secret)) {
				t.Errorf("%s: found %s", tool.Name, text)
			}
		}
	}
}

func shown(t *testing.T, policy *callability.Policy, start Start) {
	proxy := start(t, Inventory{Policy: policy, Servers: every(), Scope: callability.AllServers()})
	said, _ := discover(t, proxy, `{"query": "note", "limit": 100, "include_disabled": true}`)
	descriptions := map[string]string{}
	for _, each := range append(said.Tools, said.Disabled...) {
		if each.Description != nil {
			descriptions[each.Name] = *each.Description
		}
	}
	wanted := 0
	for _, server := range every() {
		for _, tool := range server.Tools {
			if strings.Contains(tool.Description, secret) {
				continue
			}
			wanted++
			if name := proxy.Qualified(server.Name, tool.Name); descriptions[name] != tool.Description {
				t.Errorf("%s: found the description %q, wanted %q", name, descriptions[name], tool.Description)
			}
		}
	}
	if len(descriptions) != wanted {
		t.Errorf("found %d descriptions, wanted %d", len(descriptions), wanted)
	}
}

func limits(t *testing.T, policy *callability.Policy, start Start) {
	servers := visible()
	for number := range 20 {
		servers[0].Tools = append(servers[0].Tools, Tool{Name: fmt.Sprintf("note_%d", number), Description: "A note.", Facts: open})
		servers = append(servers, Server{Name: fmt.Sprintf("extra-%d", number), Facts: openServer, Tools: []Tool{
			{Name: fmt.Sprintf("locked_note_%d", number), Description: "A note.", Facts: denied},
		}})
	}
	proxy := start(t, Inventory{Policy: policy, Servers: servers, Scope: callability.AllServers()})
	if said, _ := discover(t, proxy, `{"query": "note"}`); said.Total != callability.DefaultLimit {
		t.Errorf("found %d tools, wanted %d", said.Total, callability.DefaultLimit)
	}
	said, text := discover(t, proxy, `{"query": "note", "limit": 3, "include_disabled": true}`)
	if said.Total != 3 || len(said.Disabled) != 3 || said.DisabledTotal == nil || *said.DisabledTotal != 20 {
		t.Errorf("found %s, wanted 3 of 22 callable and 3 of 20 locked tools", text)
	}
	if said, _ := discover(t, proxy, `{"query": "note", "limit": 100, "include_disabled": true}`); len(said.Disabled) != 10 {
		t.Errorf("found %d locked tools, wanted 10", len(said.Disabled))
	}
	for _, arguments := range []string{
		`{"query": "note", "limit": 0}`, `{"query": "note", "limit": 101}`, `{"query": "note", "limit": "3"}`,
		`{"query": " .,"}`, `{}`, `{"query": "note", "include_disabled": 1}`,
	} {
		text, err := proxy.Discover(t.Context(), json.RawMessage(arguments))
		if found := parsed(t, text, err); !found.IsError {
			t.Errorf("%s: found %s, wanted an error", arguments, text)
		}
	}
}

func unknown(t *testing.T, policy *callability.Policy, start Start) {
	proxy := start(t, Inventory{Policy: policy, Servers: every(), Scope: callability.AllServers()})
	result, text := call(t, proxy, proxy.Qualified("notes", "read_notes"))
	if !result.IsError || len(result.Content) != 1 || !strings.Contains(result.Content[0].Text, "read_note") {
		t.Errorf("found %s, wanted an error that names a similar tool", text)
	}
	if _, text := call(t, proxy, proxy.Qualified("vault", "write_notes")); bytes.Contains(text, []byte(`write_note\"`)) {
		t.Errorf("a locked tool is named as similar: %s", text)
	}
	if proxy.Called() != 0 {
		t.Errorf("found %d calls, wanted 0", proxy.Called())
	}
}

// unlisted calls tools of servers that were never asked for their tools.
func unlisted(t *testing.T, policy *callability.Policy, start Start) {
	servers := append(every(), Server{Name: "attic", Facts: offServer}, Server{Name: "guest", Facts: quarantine})
	proxy := start(t, Inventory{Policy: policy, Servers: servers, Scope: callability.AllServers()})
	for server, status := range map[string]string{
		"attic": "server_disabled", "guest": "server_quarantined", "archive": "server_disabled", "stranger": "", "notes": "",
	} {
		result, text := call(t, proxy, proxy.Qualified(server, "find_note"))
		var why rejection
		if result.StructuredContent != nil {
			if err := json.Unmarshal(result.StructuredContent, &why); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
		if !result.IsError || why.Status != status || status != "" && (why.Server != server || why.Tool != "find_note") {
			t.Errorf("%s: found %s, wanted an error with the status %q", server, text, status)
		}
	}
	scoped := start(t, Inventory{Policy: policy, Servers: servers, Scope: callability.Servers("notes")})
	alone := start(t, Inventory{Policy: policy, Servers: visible(), Scope: callability.AllServers()})
	for _, server := range []string{"attic", "guest", "archive"} {
		_, found := call(t, scoped, scoped.Qualified(server, "find_note"))
		if _, wanted := call(t, alone, alone.Qualified(server, "find_note")); !bytes.Equal(found, wanted) {
			t.Errorf("%s:\nfound  %s\nwanted %s", server, found, wanted)
		}
	}
	if proxy.Called() != 0 || scoped.Called() != 0 {
		t.Errorf("found %d and %d calls, wanted 0", proxy.Called(), scoped.Called())
	}
}
