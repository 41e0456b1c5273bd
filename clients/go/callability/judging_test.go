package callability_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/callability/callability/clients/go/callability"
)

var (
	offServer   = callability.ServerFacts{Enabled: callability.False, Quarantined: callability.False, Labels: callability.NoLabels()}
	pendingTool = callability.ToolFacts{ConfigDenied: callability.False, Annotations: &callability.Annotations{},
		Approval: callability.Record(callability.False, callability.ApprovalPending), Labels: callability.NoLabels()}
	refusedTool = callability.ToolFacts{ConfigDenied: callability.False, Approval: callability.NoRecord(), CallerRefuses: true,
		Annotations: &callability.Annotations{}, Labels: callability.NoLabels()}
)

// A mirror holds what an inventory was told, so that another one can be told the same.
type mirror struct {
	servers map[string]callability.ServerFacts
	tools   map[string]map[string]callability.ToolEntry
}

// edit draws a change, and makes it in an inventory and in its mirror.
func (m *mirror) edit(random *rand.Rand, inventory *callability.Inventory) {
	server := []string{"git", "files", "web", "git:files"}[random.IntN(4)]
	tool := m.drawn(random, []string{"read", "write", "find", "", "files:read"}[random.IntN(5)])
	kind := random.IntN(6)
	if m.tools[server] == nil && kind < 5 && kind != 3 {
		m.tools[server] = map[string]callability.ToolEntry{}
	}
	switch kind {
	case 0:
		m.servers[server] = []callability.ServerFacts{openServer, openServer, offServer, {}}[random.IntN(4)]
		inventory.PutServer(server, m.servers[server])
	case 1, 2:
		m.tools[server][tool.Name] = tool
		inventory.Put(server, tool)
	case 3:
		delete(m.tools[server], tool.Name)
		inventory.Remove(server, tool.Name)
	case 4:
		every := []callability.ToolEntry{}
		for _, name := range []string{"read", "write", "find"}[:random.IntN(4)] {
			entry := m.drawn(random, name)
			if before, ok := m.tools[server][name]; ok && random.IntN(2) == 0 {
				entry = before
			}
			every = append(every, entry)
		}
		m.tools[server] = map[string]callability.ToolEntry{}
		for _, each := range every {
			m.tools[server][each.Name] = each
		}
		inventory.Replace(server, every)
	case 5:
		delete(m.servers, server)
		delete(m.tools, server)
		inventory.RemoveServer(server)
	}
}

func (m *mirror) drawn(random *rand.Rand, name string) callability.ToolEntry {
	facts := []callability.ToolFacts{openTool, openTool, deniedTool, pendingTool, refusedTool, {}}[random.IntN(6)]
	found := entry(name, facts)
	if facts.CallerRefuses {
		found.Refusal = []string{"", "It needs a task."}[random.IntN(2)]
	}
	return found
}

// fresh returns an inventory that was told the same, and has decided nothing.
func (m *mirror) fresh() *callability.Inventory {
	found := &callability.Inventory{}
	for name, facts := range m.servers {
		found.PutServer(name, facts)
	}
	for name, tools := range m.tools {
		for _, tool := range tools {
			found.Put(name, tool)
		}
	}
	return found
}

// said is everything that an agent can read of a judgement.
func said(t *testing.T, inventory *callability.Inventory, judgement *callability.Judgement) []any {
	t.Helper()
	found := []any{
		string(judgement.Counts()), judgement.CallableNames(), judgement.LockedNames(), judgement.Locks(),
	}
	for _, query := range []string{"read files", "write", "find git"} {
		result, err := judgement.Discovery(callability.Discovery{
			Query: query, Found: judgement.CallableNames(), FoundLocked: judgement.LockedNames(), IncludeDisabled: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, string(result.JSON()))
	}
	for _, name := range append(judgement.CallableNames(), judgement.LockedNames()...) {
		server, tool, _ := judgement.Split(name)
		found = append(found, name, server, tool, judgement.Status(name), judgement.Searchable(name))
	}
	return found
}

func TestAJudgementIsThatOfAnInventoryThatDecidesEverythingAnew(t *testing.T) {
	policies := []*callability.Policy{bundled(t, "shipped.bundle"), bundled(t, "agents-allowed.bundle")}
	agents := []*callability.Agent{nil, callability.NewAgent(callability.AgentFacts{Name: "assistant", Labels: callability.NoLabels()})}
	scopes := []callability.Scope{callability.AllServers(), {}, callability.Servers("git"), callability.Servers("files", "git:files")}
	for seed := range uint64(150) {
		random := rand.New(rand.NewPCG(seed, 14))
		inventory := &callability.Inventory{}
		told := mirror{map[string]callability.ServerFacts{}, map[string]map[string]callability.ToolEntry{}}
		for step := range 12 {
			told.edit(random, inventory)
			policy, agent, scope := policies[random.IntN(2)], agents[random.IntN(2)], scopes[random.IntN(4)]
			fresh := told.fresh()
			judgement, err := inventory.Judge(t.Context(), policy, agent, scope)
			wanted, wantedErr := fresh.Judge(t.Context(), policy, agent, scope)
			if fmt.Sprint(err) != fmt.Sprint(wantedErr) {
				t.Fatalf("seed %d, step %d: found %v, wanted %v", seed, step, err, wantedErr)
			}
			if err != nil {
				continue
			}
			if found, wanted := said(t, inventory, judgement), said(t, fresh, wanted); !reflect.DeepEqual(found, wanted) {
				t.Fatalf("seed %d, step %d:\nfound  %v\nwanted %v", seed, step, found, wanted)
			}
		}
	}
}

// A counter counts the tools that were decided.
type counter struct {
	mutex sync.Mutex
	tools int
	calls []string
}

func (c *counter) Measure(name string, value float64, labels ...string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	switch name {
	case "callability_client_tools_decided_total":
		c.tools += int(value)
	case "callability_client_call_seconds":
		c.calls = append(c.calls, labels[1]+" "+labels[3])
	}
}

func TestWhatHasNotChangedIsNotDecidedAgain(t *testing.T) {
	policy, counted := bundled(t, "shipped.bundle"), &counter{}
	inventory := &callability.Inventory{Hooks: callability.Hooks{Metrics: counted}}
	every := func() (found []callability.ToolEntry) {
		for number := range 50 {
			found = append(found, entry(fmt.Sprintf("tool_%02d", number), openTool))
		}
		return found
	}
	var judgement *callability.Judgement
	decides := func(what string, wanted int, same bool) {
		t.Helper()
		before := judgement
		counted.tools = 0
		var err error
		if judgement, err = inventory.Judge(t.Context(), policy, nil, callability.AllServers()); err != nil {
			t.Fatal(err)
		}
		if counted.tools != wanted || (judgement == before) != same {
			t.Errorf("%s: found %d decisions, wanted %d; the same judgement: %t", what, counted.tools, wanted, judgement == before)
		}
	}
	for _, server := range []string{"git", "files"} {
		inventory.PutServer(server, openServer)
		inventory.Replace(server, every())
	}
	decides("everything", 100, false)
	decides("nothing", 0, true)
	inventory.Replace("git", every())
	inventory.PutServer("git", openServer)
	decides("what is equal", 0, true)
	inventory.Put("git", entry("tool_07", deniedTool))
	decides("a tool", 1, false)
	inventory.Remove("git", "tool_08")
	decides("a tool that is gone", 0, false)
	inventory.PutServer("git", offServer)
	decides("a server", 49, false)
	inventory.Replace("files", append(every(), entry("new", openTool)))
	decides("a new tool", 1, false)
	changed := entry("new", openTool)
	changed.Text = text("Other words.")
	inventory.Put("files", changed)
	decides("a text", 0, false)
	if _, err := inventory.Judge(t.Context(), nil, nil, callability.AllServers()); err == nil || !slices.Contains(counted.calls, "Judge unavailable") {
		t.Errorf("found %v and the calls %q", err, counted.calls)
	}
}

// BenchmarkJudge compares a judgement of which one tool or one server has changed with one in which all is decided.
func BenchmarkJudge(b *testing.B) {
	policy := bundled(b, "shipped.bundle")
	flipped := []callability.ToolFacts{openTool, deniedTool}
	servers := []callability.ServerFacts{openServer, offServer}
	for _, count := range []int{1_000, 10_000} {
		inventory := &callability.Inventory{}
		for number := range count {
			server := fmt.Sprintf("server-%d", number%50)
			inventory.PutServer(server, openServer)
			inventory.Put(server, entry(fmt.Sprintf("tool_%d", number), flipped[number%10/9]))
		}
		every := map[string]func(int){
			"everything": func(int) { inventory.PutServer("server-0", openServer) },
			"one tool":   func(turn int) { inventory.Put("server-0", entry("tool_0", flipped[turn%2])) },
			"one server": func(turn int) { inventory.PutServer("server-0", servers[turn%2]) },
			"nothing":    func(int) {},
		}
		for name, change := range every {
			b.Run(fmt.Sprintf("%d tools/%s", count, name), func(b *testing.B) {
				for turn := 0; b.Loop(); turn++ {
					change(turn)
					scope := callability.AllServers()
					if name == "everything" {
						// A scope that was not judged before has no judgement to go on from.
						scope = callability.Servers(append(inventory.Servers(scope), fmt.Sprint("nowhere-", turn))...)
					}
					judgement, err := inventory.Judge(b.Context(), policy, nil, scope)
					if err != nil || !judgement.Callable("server-1:tool_1") {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// refusedOf are what an agent reads about the only tool of an inventory: its locks, and the rejection of a call.
func refusedOf(t *testing.T, policy *callability.Policy, facts callability.ToolFacts) ([]callability.Lock, string) {
	t.Helper()
	var inventory callability.Inventory
	inventory.PutServer("git", openServer)
	inventory.Put("git", callability.ToolEntry{Name: "reset", Facts: facts, Refusal: "Not on the allow list."})
	judgement, err := inventory.Judge(t.Context(), policy, nil, callability.AllServers())
	if err != nil {
		t.Fatal(err)
	}
	return judgement.Locks(), inventory.Decide(t.Context(), policy, nil, callability.AllServers(), "git:reset").Rejection.Text
}

func TestAToolWithAnErrorHasNoRefusal(t *testing.T) {
	facts := refusedTool
	facts.Labels = callability.Labels{}
	for number := range 65 {
		facts.Labels[fmt.Sprint(number)] = "v"
	}
	locks, rejection := refusedOf(t, bundled(t, "shipped.bundle"), facts)
	if len(locks) != 1 || locks[0].Status != callability.StatusDisabledUnknown || strings.Contains(locks[0].Text, "allow list") {
		t.Errorf("found %+v", locks)
	}
	if strings.Contains(rejection, "allow list") || !strings.Contains(rejection, "Retrying does not help.") {
		t.Errorf("found %s", rejection)
	}
}

// TestAStatusOfALaterVersionIsNoneOfThisOne takes a number whose lowest byte is that of `disabled_by_config`.
func TestAStatusOfALaterVersionIsNoneOfThisOne(t *testing.T) {
	policy, err := callability.ReadPolicy(renumbered(t, "disabled_unknown", 256+int(callability.StatusDisabledByConfig)))
	if err != nil {
		t.Fatal(err)
	}
	locks, rejection := refusedOf(t, policy, refusedTool)
	unexplained := "The policy service gives no reason. Tell the user. Next step:"
	if len(locks) != 1 || locks[0].Status != callability.StatusDisabledUnknown || !strings.HasPrefix(locks[0].Text, unexplained) {
		t.Errorf("found %+v", locks)
	}
	if strings.Contains(rejection, "allow list") || !strings.Contains(rejection, unexplained) {
		t.Errorf("found %s", rejection)
	}
	found, _ := refusedOf(t, policy, deniedTool)
	if wanted, _ := refusedOf(t, bundled(t, "shipped.bundle"), deniedTool); !slices.Equal(found, wanted) {
		t.Errorf("found %+v, wanted %+v", found, wanted)
	}
	explanation, err := policy.Explain(nil, callability.NewServer("git", openServer).Tool("reset", refusedTool))
	if err != nil {
		t.Fatal(err)
	}
	if last := explanation.Trials[len(explanation.Trials)-1]; last.Status != callability.StatusUnspecified {
		t.Errorf("found %s of rule %s", last.Status, last.Rule)
	}
}
