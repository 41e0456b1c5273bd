package callability_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/callability/callability/clients/go/callability"
)

func text(description string) callability.ToolText {
	return callability.ToolText{Description: &description, InputSchema: []byte(`{"type": "object"}`)}
}

func entry(name string, facts callability.ToolFacts) callability.ToolEntry {
	return callability.ToolEntry{Name: name, Facts: facts, Text: text("Does " + name + ".")}
}

var (
	openServer = callability.ServerFacts{Enabled: callability.True, Quarantined: callability.False, Labels: callability.NoLabels()}
	openTool   = callability.ToolFacts{ConfigDenied: callability.False, Approval: callability.NoRecord(),
		Annotations: &callability.Annotations{}, Labels: callability.NoLabels()}
	deniedTool = callability.ToolFacts{ConfigDenied: callability.True, Approval: callability.NoRecord(),
		Annotations: &callability.Annotations{}, Labels: callability.NoLabels()}
)

func discovered(t *testing.T, inventory *callability.Inventory, scope callability.Scope, locked bool) string {
	t.Helper()
	judgement, err := inventory.Judge(t.Context(), bundled(t, "shipped.bundle"), nil, scope)
	if err != nil {
		t.Fatal(err)
	}
	result, err := judgement.Discovery(callability.Discovery{
		Query: "git status", Found: judgement.CallableNames(), FoundLocked: judgement.LockedNames(), IncludeDisabled: locked,
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(result.JSON())
}

func TestWithoutTheFlagLockedToolsChangeNoByteOfAnAnswer(t *testing.T) {
	var inventory callability.Inventory
	inventory.PutServer("git", openServer)
	inventory.Put("git", entry("git_status", openTool))
	before := discovered(t, &inventory, callability.AllServers(), false)
	inventory.Put("git", entry("git_reset", deniedTool))
	inventory.PutServer("off", callability.ServerFacts{Enabled: callability.False, Quarantined: callability.False})
	inventory.Put("off", entry("git_status_2", openTool))
	if after := discovered(t, &inventory, callability.AllServers(), false); after != before {
		t.Errorf("found %s, wanted %s", after, before)
	}
	if with := discovered(t, &inventory, callability.AllServers(), true); with == before {
		t.Errorf("the locked tools are not shown: %s", with)
	}
}

func TestAServerOutOfScopeDoesNotExist(t *testing.T) {
	var inventory callability.Inventory
	inventory.PutServer("git", openServer)
	inventory.Put("git", entry("git_status", openTool))
	before := discovered(t, &inventory, callability.Servers("git"), true)
	inventory.PutServer("secret", openServer)
	inventory.Replace("secret", []callability.ToolEntry{entry("git_status", deniedTool), entry("git_reset", openTool)})
	if after := discovered(t, &inventory, callability.Servers("git"), true); after != before {
		t.Errorf("found %s, wanted %s", after, before)
	}
	if nothing := discovered(t, &inventory, callability.Scope{}, true); nothing == before {
		t.Error("an empty scope shows what a scope shows")
	}
}

func TestAnInventoryThatChangesIsJudgedAgain(t *testing.T) {
	var inventory callability.Inventory
	policy := bundled(t, "shipped.bundle")
	status := func() callability.Status {
		judgement, err := inventory.Judge(t.Context(), policy, nil, callability.AllServers())
		if err != nil {
			t.Fatal(err)
		}
		return judgement.Status("git:git_status")
	}
	wanted := func(want callability.Status) {
		t.Helper()
		if found := status(); found != want {
			t.Errorf("found %s, wanted %s", found, want)
		}
	}
	wanted(callability.StatusUnspecified)
	inventory.Put("git", entry("git_status", openTool))
	wanted(callability.StatusDisabledUnknown)
	inventory.PutServer("git", openServer)
	wanted(callability.StatusCallable)
	inventory.Replace("git", []callability.ToolEntry{entry("git_status", deniedTool)})
	wanted(callability.StatusDisabledByConfig)
	inventory.Remove("git", "git_status")
	wanted(callability.StatusUnspecified)
	inventory.Put("git", entry("git_status", openTool))
	inventory.RemoveServer("git")
	wanted(callability.StatusUnspecified)
	if _, err := inventory.Judge(t.Context(), nil, nil, callability.AllServers()); !errors.Is(err, callability.ErrNoPolicy) {
		t.Errorf("found %v, wanted %v", err, callability.ErrNoPolicy)
	}
}

func TestAnItemWithAnErrorCountsAsUnknown(t *testing.T) {
	var inventory callability.Inventory
	inventory.PutServer("git", openServer)
	inventory.Put("git", entry("git_status", openTool))
	inventory.Put("git", entry("", openTool))
	judgement, err := inventory.Judge(t.Context(), bundled(t, "shipped.bundle"), nil, callability.AllServers())
	if err != nil {
		t.Fatal(err)
	}
	if found, wanted := string(judgement.Counts()), `{"git":{"callable":1,"disabled_unknown":1}}`; found != wanted {
		t.Errorf("found %s, wanted %s", found, wanted)
	}
}

func TestTextsOfAJudgementAreThoseThatWereJudged(t *testing.T) {
	pending := openTool
	pending.Approval = callability.Approval{}
	var inventory callability.Inventory
	inventory.PutServer("git", openServer)
	approved := entry("git_status", openTool)
	approved.Text = text("Shows the status.")
	inventory.Put("git", approved)
	policy := bundled(t, "shipped.bundle")
	judgement, err := inventory.Judge(t.Context(), policy, nil, callability.AllServers())
	if err != nil {
		t.Fatal(err)
	}
	poisoned := entry("git_status", pending)
	poisoned.Text = text("Poisoned.")
	inventory.Put("git", poisoned)
	result, err := judgement.Discovery(callability.Discovery{Query: "git", Found: judgement.CallableNames()})
	if err != nil || !strings.Contains(result.Text, "Shows the status.") || strings.Contains(result.Text, "Poisoned") {
		t.Errorf("found %s and %v", result.Text, err)
	}
	if found := discovered(t, &inventory, callability.AllServers(), true); strings.Contains(found, "Poisoned") {
		t.Errorf("found %s", found)
	}
}

func TestTheTextOfAHiddenToolWithTheSameNameIsNotShown(t *testing.T) {
	inventory := callability.Inventory{Adapter: callability.Adapter{Separator: "_"}}
	for server, tool := range map[string]string{"files": "x_read", "files_x": "read"} {
		listed := entry(tool, openTool)
		listed.Text = text("Of " + server + ".")
		inventory.PutServer(server, openServer)
		inventory.Put(server, listed)
	}
	judgement, err := inventory.Judge(t.Context(), bundled(t, "shipped.bundle"), nil, callability.Servers("files_x"))
	if err != nil {
		t.Fatal(err)
	}
	if found, known := judgement.Text("files_x_read"); !known || *found.Description != "Of files_x." {
		t.Errorf("found %v, %v", found, known)
	}
}

func TestScopesWithAnyByteInANameAreDifferentScopes(t *testing.T) {
	var inventory callability.Inventory
	for _, server := range []string{"a", "b", "a\x00b"} {
		inventory.PutServer(server, openServer)
		inventory.Put(server, entry("read", openTool))
	}
	policy := bundled(t, "shipped.bundle")
	for _, names := range [][]string{{"a\x00b"}, {"a", "b"}, {"1:a"}, {"1:b", "a"}, {"a"}, {}} {
		scope := callability.Servers(names...)
		judgement, err := inventory.Judge(t.Context(), policy, nil, scope)
		if err != nil {
			t.Fatal(err)
		}
		if found, wanted := judgement.CallableNames(), len(inventory.Servers(scope)); len(found) != wanted {
			t.Errorf("scope %q: found %q", names, found)
		}
	}
}

func TestALockedToolWithoutATextIsFoundByItsName(t *testing.T) {
	var inventory callability.Inventory
	inventory.PutServer("git", openServer)
	inventory.Put("git", callability.ToolEntry{Name: "git_reset", Facts: deniedTool})
	judgement, err := inventory.Judge(t.Context(), bundled(t, "shipped.bundle"), nil, callability.AllServers())
	if err != nil {
		t.Fatal(err)
	}
	if _, known := judgement.Text("git:git_reset"); known {
		t.Error("found a text")
	}
	for _, flag := range []bool{false, true} {
		result, err := judgement.Discovery(callability.Discovery{Query: "reset", IncludeDisabled: flag})
		if err != nil || flag != strings.Contains(result.Text, "disabled_by_config") || flag == strings.Contains(result.Text, "notice") {
			t.Errorf("flag %t: found %s and %v", flag, result.Text, err)
		}
	}
	inventory.Put("git", entry("git_reset", deniedTool))
	judgement, err = inventory.Judge(t.Context(), bundled(t, "shipped.bundle"), nil, callability.AllServers())
	if _, known := judgement.Text("git:git_reset"); !known || err != nil {
		t.Errorf("found no text, or %v", err)
	}
}

// discoveredWith is the answer about one callable tool with a schema.
func discoveredWith(t *testing.T, schema string) (callability.Result, error) {
	t.Helper()
	var inventory callability.Inventory
	inventory.PutServer("git", openServer)
	inventory.Put("git", callability.ToolEntry{
		Name: "status", Facts: openTool, Text: callability.ToolText{InputSchema: []byte(schema)},
	})
	judgement, err := inventory.Judge(t.Context(), bundled(t, "shipped.bundle"), nil, callability.AllServers())
	if err != nil {
		t.Fatal(err)
	}
	return judgement.Discovery(callability.Discovery{Query: "status", Found: judgement.CallableNames()})
}

func TestASchemaTakesMemoryByItsSizeHoweverDeepItIsNested(t *testing.T) {
	const levels = 4500
	word := `"` + strings.Repeat("x", mebibyte) + `"`
	nested := func(before, after string) string {
		return strings.Repeat(before, levels) + word + strings.Repeat(after, levels)
	}
	for schema, wanted := range map[string]string{
		nested("[ ", " ]"):                              nested("[", "]"),
		nested(`{"b": 1, "a": 2, "b": `, ` }`):          nested(`{"b":`, `,"a":2}`),
		nested(`{"a": 1, "a": 2, "a": [`, `], "b": 3}`): nested(`{"a":[`, `],"b":3}`),
	} {
		found := allocated(func() {
			result, err := discoveredWith(t, schema)
			if err != nil || !strings.Contains(string(result.StructuredContent), `"inputSchema":`+wanted+`}`) {
				t.Errorf("%.30s: found another schema, or %v", schema, err)
			}
		})
		if found > 64*mebibyte {
			t.Errorf("%.30s: found %d bytes allocated", schema, found)
		}
	}
}

func TestEachErrorOfAnInventoryNamesItsServerAndTool(t *testing.T) {
	var inventory callability.Inventory
	long, malformed := strings.Repeat("x", 513), callability.ToolText{InputSchema: []byte("{")}
	facts := callability.ToolFacts{Labels: callability.Labels{"": "v"}}
	put := func(server string, entries ...callability.ToolEntry) error {
		if len(entries) == 1 {
			return inventory.Put(server, entries[0])
		}
		return inventory.Replace(server, entries)
	}
	for what, each := range map[string]struct {
		err    error
		wanted []callability.EntryError
	}{
		"a server":         {inventory.PutServer(long, openServer), []callability.EntryError{{Server: long}}},
		"a tool":           {put("git", callability.ToolEntry{Name: "a", Facts: facts, Text: malformed}), []callability.EntryError{{Server: "git", Tool: "a"}, {Server: "git", Tool: "a"}}},
		"a tool of it":     {put(long, entry("a", openTool)), []callability.EntryError{{Server: long, Tool: "a"}}},
		"tools":            {put("files", callability.ToolEntry{Name: "c", Text: malformed}, entry("b", facts), entry("b", openTool)), []callability.EntryError{{Server: "files", Tool: "c"}, {Server: "files", Tool: "b"}, {Server: "files", Tool: "b"}}},
		"a qualified name": {errors.Join(put("x", entry("y:z", openTool)), put("x:y", entry("z", openTool))), []callability.EntryError{{Server: "x:y", Tool: "z"}}},
	} {
		var found []callability.EntryError
		for _, err := range parts(each.err) {
			var entry *callability.EntryError
			if !errors.As(err, &entry) || entry.Err == nil {
				t.Fatalf("%s: found %v", what, err)
			}
			found = append(found, callability.EntryError{Server: entry.Server, Tool: entry.Tool})
		}
		if !slices.Equal(found, each.wanted) {
			t.Errorf("%s: found %v, wanted %v", what, found, each.wanted)
		}
	}
}

// parts are the errors that an error joins.
func parts(err error) []error {
	joined, is := err.(interface{ Unwrap() []error })
	if !is {
		return []error{err}
	}
	var found []error
	for _, each := range joined.Unwrap() {
		found = append(found, parts(each)...)
	}
	return found
}

func TestOneBadItemIsOneBadItem(t *testing.T) {
	var inventory callability.Inventory
	described := func(name, schema string) callability.ToolEntry {
		description := "Does " + name + "."
		return callability.ToolEntry{Name: name, Facts: openTool, Text: callability.ToolText{
			Description: &description, InputSchema: []byte(schema),
		}}
	}
	if err := inventory.PutServer("git", openServer); err != nil {
		t.Fatal(err)
	}
	deep := strings.Repeat("[", 4_000_000)
	err := inventory.Replace("git", []callability.ToolEntry{
		described("good", `{}`), described("empty", ""), described("cut", "{"), described("two", "{} {}"), described("deep", deep),
		described("", `{}`), described("again", `{"first":1}`), described("again", `{"second":1}`),
	})
	for _, wanted := range []string{
		`tool "cut" of server "git"`, `tool "two" of server "git"`, `tool "deep" of server "git"`, `[NAME_EMPTY]`,
		`tool "again" of server "git": callability: two tools have the same qualified name: it is listed twice`,
	} {
		if err == nil || !strings.Contains(err.Error(), wanted) {
			t.Errorf("found %.2000v, wanted %s", err, wanted)
		}
	}
	for _, each := range []error{callability.ErrMalformedText, callability.ErrDuplicateTool} {
		if !errors.Is(err, each) {
			t.Errorf("%v is not reported", each)
		}
	}
	if strings.Contains(err.Error(), `"good"`) || strings.Contains(err.Error(), `"empty"`) {
		t.Errorf("found %v", err)
	}
	judgement, err := inventory.Judge(t.Context(), bundled(t, "shipped.bundle"), nil, callability.AllServers())
	if err != nil {
		t.Fatal(err)
	}
	result, err := judgement.Discovery(callability.Discovery{Query: "does", Found: judgement.CallableNames()})
	if err != nil || !strings.Contains(result.Text, `{"name":"git:good","server":"git","description":"Does good.","inputSchema":{}}`) ||
		!strings.Contains(result.Text, `{"name":"git:cut","server":"git","description":"Does cut."}`) ||
		!strings.Contains(result.Text, `{"name":"git:again","server":"git","description":"Does again.","inputSchema":{"first":1}}`) ||
		!strings.Contains(result.Text, `"total":6`) {
		t.Errorf("found %s and %v", result.Text, err)
	}
	if found := string(judgement.Counts()); found != `{"git":{"callable":6,"disabled_unknown":1}}` {
		t.Errorf("found %s", found)
	}
}

func TestTwoToolsWithOneQualifiedNameCostThoseTwo(t *testing.T) {
	for _, separator := range []string{":", "::", "_"} {
		inventory := callability.Inventory{Adapter: callability.Adapter{Separator: separator}}
		long := "files" + separator + "text"
		for _, server := range []string{"files", long, "git"} {
			if err := inventory.PutServer(server, openServer); err != nil {
				t.Fatal(err)
			}
			if err := inventory.Put(server, entry("write", openTool)); err != nil {
				t.Fatal(err)
			}
		}
		if err := inventory.Put("files", entry("text"+separator+"read", openTool)); err != nil {
			t.Fatal(err)
		}
		if err := inventory.Put(long, entry("read", openTool)); !errors.Is(err, callability.ErrDuplicateTool) {
			t.Errorf("found %v", err)
		}
		policy := bundled(t, "shipped.bundle")
		wanted := func(scope callability.Scope, names ...string) {
			t.Helper()
			judgement, err := inventory.Judge(t.Context(), policy, nil, scope)
			if err != nil {
				t.Fatal(err)
			}
			if found := judgement.CallableNames(); !slices.Equal(found, names) {
				t.Errorf("found %q, wanted %q", found, names)
			}
			for _, name := range names {
				if decision := inventory.Decide(t.Context(), policy, nil, scope, name); !decision.Callable() {
					t.Errorf("%s: found %+v", name, decision)
				}
			}
		}
		name := long + separator + "read"
		wanted(callability.AllServers(), "files"+separator+"write", long+separator+"write", "git"+separator+"write")
		wanted(callability.Servers(long), name, long+separator+"write")
		judgement, err := inventory.Judge(t.Context(), policy, nil, callability.AllServers())
		if err != nil || !slices.Equal(judgement.Duplicates(), []string{name}) {
			t.Errorf("found %q, %v", judgement.Duplicates(), err)
		}
		decision := inventory.Decide(t.Context(), policy, nil, callability.AllServers(), name)
		if decision.Rejection == nil || !strings.Contains(decision.Rejection.Text, "two tools have the same qualified name") {
			t.Errorf("found %+v", decision.Rejection)
		}
		inventory.Remove("files", "text"+separator+"read")
		wanted(callability.AllServers(), "files"+separator+"write", name, long+separator+"write", "git"+separator+"write")
	}
}

func TestACallIsDecidedByTheNameThatTheAgentGives(t *testing.T) {
	var inventory callability.Inventory
	policy := bundled(t, "shipped.bundle")
	refused := entry("git_push", refusedTool)
	refused.Refusal = "Not on the allow list."
	for server, tools := range map[string][]callability.ToolEntry{
		"git": {entry("git_log", openTool), entry("git_reset", deniedTool), refused}, "hr": {entry("fire", openTool)},
	} {
		if err := inventory.PutServer(server, openServer); err != nil {
			t.Fatal(err)
		}
		if err := inventory.Replace(server, tools); err != nil {
			t.Fatal(err)
		}
	}
	scope := callability.Servers("git")
	called := inventory.Decide(t.Context(), policy, nil, scope, "git:git_log")
	if !called.Callable() || called.Rejection != nil || called.Tool.Name() != "git_log" || called.Tool.Server().Name() != "git" || !called.Verdict.Callable() {
		t.Errorf("found %+v", called)
	}
	for name, wanted := range map[string]string{
		"git:git_reset": "Not called: disabled_by_config, by policy.",
		"git:git_push":  "Not called: disabled_unknown. Not on the allow list.",
		"git:git_lag":   `Not called: there is no tool "git:git_lag". Similar names: "git:git_log".`,
		"hr:fire":       `Not called: there is no tool "hr:fire". Find tools`,
		"":              `Not called: there is no tool "".`,
	} {
		found := inventory.Decide(t.Context(), policy, nil, scope, name)
		if found.Callable() || found.Rejection == nil || !strings.HasPrefix(found.Rejection.Text, wanted) || !found.Rejection.IsError {
			t.Errorf("%s: found %+v, wanted %s", name, found.Rejection, wanted)
		}
	}
	if found := inventory.Decide(t.Context(), nil, nil, scope, "git:git_log"); found.Callable() || found.Rejection == nil || !strings.HasPrefix(found.Rejection.Text, "Not done:") {
		t.Errorf("found %+v", found.Rejection)
	}
}

func TestAProxyWithoutADiscoveryToolPointsToNone(t *testing.T) {
	inventory := callability.Inventory{Adapter: callability.Adapter{NoDiscovery: true}}
	if err := errors.Join(inventory.PutServer("git", openServer), inventory.Put("git", entry("git_reset", deniedTool))); err != nil {
		t.Fatal(err)
	}
	policy := bundled(t, "shipped.bundle")
	judgement, err := inventory.Judge(t.Context(), policy, nil, callability.AllServers())
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{judgement.Locked(callability.Discovery{Query: "reset", FoundLocked: judgement.LockedNames()}).Notice}
	for _, name := range []string{"git:git_reset", "git:nothing"} {
		texts = append(texts, inventory.Decide(t.Context(), policy, nil, callability.AllServers(), name).Rejection.Text)
	}
	for _, text := range texts {
		if text == "" || strings.Contains(text, "retrieve_tools") || strings.Contains(text, "include_disabled") {
			t.Errorf("found %q", text)
		}
	}
}

func TestLockedToolsAndLimitsAreValuesForAnAnswerOfTheProxysOwn(t *testing.T) {
	inventory := callability.Inventory{Adapter: callability.Adapter{Limits: callability.Limits{Default: 2, Max: 3, Locked: 1}}}
	if err := errors.Join(
		inventory.PutServer("git", openServer), inventory.Put("git", entry("git_reset", deniedTool)),
		inventory.Put("git", entry("git_push", pendingTool)), inventory.Put("git", entry("git_log", openTool)),
	); err != nil {
		t.Fatal(err)
	}
	judgement, err := inventory.Judge(t.Context(), bundled(t, "shipped.bundle"), nil, callability.AllServers())
	if err != nil {
		t.Fatal(err)
	}
	found := judgement.Locked(callability.Discovery{Query: "git", FoundLocked: judgement.LockedNames()})
	if found.Total != 2 || len(found.Shown) != 1 ||
		found.Shown[0].Name != "git:git_reset" || *found.Shown[0].Description != "Does git_reset." ||
		len(found.Locks) != 1 || found.Locks[0].Status != callability.StatusDisabledByConfig || found.Notice == "" {
		t.Errorf("found %+v", found)
	}
	if _, known := judgement.Text("git:git_reset"); !known {
		t.Error("found no text of a tool whose text may be shown")
	}
	if _, known := judgement.Text("git:git_push"); known || judgement.Searchable("git:git_push") {
		t.Error("found a text that is withheld")
	}
	for arguments, wanted := range map[string]int{`{"query": "git"}`: 2, `{"query": "git", "limit": 3}`: 3, `{"query": "git", "limit": 4}`: 0} {
		if found, err := inventory.Adapter.Arguments([]byte(arguments)); found.Limit != wanted || (err != nil) != (wanted == 0) {
			t.Errorf("%s: found %d, %v", arguments, found.Limit, err)
		}
	}
	if schema := string(inventory.Adapter.DiscoverySchema()); !strings.Contains(schema, `"maximum":3,"default":2`) {
		t.Errorf("found %s", schema)
	}
}
