package callability_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/shipped"
)

// filled returns an inventory of so many tools on 50 servers, one of which is for billing, each with a text of some bytes.
func filled(t testing.TB, tools, bytes int) *callability.Inventory {
	t.Helper()
	description := strings.Repeat("x", bytes)
	inventory := &callability.Inventory{}
	for server := range 50 {
		var every []callability.ToolEntry
		for number := range tools / 50 {
			facts := openTool
			if number%10 == 9 {
				facts = deniedTool
			}
			every = append(every, callability.ToolEntry{
				Name: fmt.Sprintf("tool_%d", number), Facts: facts, Text: callability.ToolText{Description: &description},
			})
		}
		name := fmt.Sprintf("server-%d", server)
		if server == 49 {
			name = "billing-49"
		}
		if err := inventory.PutServer(name, openServer); err != nil {
			t.Fatal(err)
		}
		if err := inventory.Replace(name, every); err != nil {
			t.Fatal(err)
		}
	}
	return inventory
}

func judged(t testing.TB, inventory *callability.Inventory, policy *callability.Policy, agent *callability.Agent, scope callability.Scope) *callability.Judgement {
	t.Helper()
	found, err := inventory.Judge(t.Context(), policy, agent, scope)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func named(name string) *callability.Agent {
	return callability.NewAgent(callability.AgentFacts{Name: name, Labels: callability.NoLabels()})
}

func TestAgentsThatNoRuleDistinguishesShareAJudgement(t *testing.T) {
	inventory, policy := filled(t, 500, 10), bundled(t, "agents-allowed.bundle")
	first := judged(t, inventory, policy, named("ledger-bot"), callability.AllServers())
	if again := judged(t, inventory, policy, named("ledger-bot"), callability.AllServers()); again != first {
		t.Error("an agent that is registered for each request is judged each time")
	}
	stranger := judged(t, inventory, policy, named("stranger"), callability.AllServers())
	if other := judged(t, inventory, policy, named("another stranger"), callability.AllServers()); other != stranger {
		t.Error("two agents of one class are judged twice")
	}
	if stranger == first || len(stranger.CallableNames()) == len(first.CallableNames()) {
		t.Error("agents that a rule distinguishes share a judgement")
	}
	if unknown := judged(t, inventory, policy, nil, callability.AllServers()); unknown == first || unknown == stranger {
		t.Error("an unknown agent shares the judgement of one that is known")
	}
	if scoped := judged(t, inventory, policy, named("ledger-bot"), callability.Servers("server-1")); scoped == first {
		t.Error("two scopes share a judgement")
	}
	wrong := named(strings.Repeat("x", 513))
	if found := judged(t, inventory, policy, wrong, callability.AllServers()); len(found.CallableNames()) > 0 {
		t.Error("an agent with an error can call a tool")
	}
}

func TestTheLeastRecentlyUsedJudgementGoesFirst(t *testing.T) {
	inventory, policy := filled(t, 500, 1000), bundled(t, "shipped.bundle")
	// Each judgement of 500 tools takes about 18 KB, so that three stay.
	inventory.MaxBytes = 60_000
	scopes := make([]callability.Scope, 6)
	for number := range scopes {
		// A server that is not there makes another scope of the same tools.
		names := append(inventory.Servers(callability.AllServers()), fmt.Sprint("nowhere-", number))
		scopes[number] = callability.Servers(names...)
	}
	first := judged(t, inventory, policy, nil, scopes[0])
	second := judged(t, inventory, policy, nil, scopes[1])
	for _, scope := range scopes[2:] {
		judged(t, inventory, policy, nil, scope)
		if judged(t, inventory, policy, nil, scopes[0]) != first {
			t.Fatal("a judgement that is used all the time is made again")
		}
	}
	if judged(t, inventory, policy, nil, scopes[1]) == second {
		t.Error("more is kept than was stated")
	}
}

// held is how many bytes the heap has after what nobody refers to is gone.
func held() int {
	// The first collection finds a policy that nobody refers to, and then its judgements are dropped.
	for range 3 {
		runtime.GC()
	}
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	return int(now.HeapAlloc)
}

func TestJudgementsOfAPolicyThatWasReplacedGoWithIt(t *testing.T) {
	inventory := filled(t, 2_000, 10)
	inventory.MaxBytes = 1 << 30
	var store callability.PolicyStore
	reload := func() {
		policy, err := callability.ReadPolicy(shipped.Bundle())
		if err != nil {
			t.Fatal(err)
		}
		store.Swap(policy)
		judged(t, inventory, store.Load(), nil, callability.AllServers())
	}
	reload()
	before := held()
	for range 64 {
		reload()
	}
	if grown := held() - before; grown > mebibyte {
		t.Errorf("found %d bytes more after 64 reloads", grown)
	}
	runtime.KeepAlive(inventory)
}

func TestAThousandAgentsOfOneKindTakeTheMemoryOfOne(t *testing.T) {
	inventory, policy := filled(t, 2_000, 100), bundled(t, "agents-allowed.bundle")
	agents := make([]*callability.Agent, 1000)
	for number := range agents {
		agents[number] = named(fmt.Sprintf("stranger-%d", number))
	}
	judged(t, inventory, policy, named("ledger-bot"), callability.AllServers())
	judged(t, inventory, policy, agents[0], callability.AllServers())
	before := held()
	for _, agent := range agents {
		judged(t, inventory, policy, agent, callability.AllServers())
	}
	if grown := held() - before; grown > mebibyte/4 {
		t.Errorf("found %d bytes more for 999 agents that share a judgement", grown)
	}
	runtime.KeepAlive(inventory)
	runtime.KeepAlive(agents)
}

func TestManyDecideJudgeAndChangeAtOnce(t *testing.T) {
	inventory, policies := filled(t, 500, 10), []*callability.Policy{bundled(t, "shipped.bundle"), bundled(t, "agents-allowed.bundle")}
	const turns = 100
	var group sync.WaitGroup
	for worker := range 6 {
		group.Add(1)
		go func() {
			defer group.Done()
			for turn := range turns {
				server := fmt.Sprintf("server-%d", turn%49)
				if worker == 0 {
					if err := inventory.Put(server, entry("tool_1", []callability.ToolFacts{openTool, deniedTool}[turn%2])); err != nil {
						t.Error(err)
					}
					if err := inventory.PutServer(server, []callability.ServerFacts{openServer, offServer}[turn%2]); err != nil {
						t.Error(err)
					}
					continue
				}
				policy, agent := policies[turn%2], named("ledger-bot")
				found := judged(t, inventory, policy, agent, callability.AllServers())
				for _, name := range found.CallableNames() {
					if inventory.Decide(t.Context(), policy, agent, callability.AllServers(), name).Tool == nil {
						t.Errorf("%s is gone", name)
						return
					}
				}
			}
		}()
	}
	group.Wait()
	policy := policies[0]
	fresh := filled(t, 500, 10)
	for number := range 49 {
		// The last turn about this server.
		server, turn := fmt.Sprintf("server-%d", number), number+49
		if turn+49 < turns {
			turn += 49
		}
		_ = fresh.Put(server, entry("tool_1", []callability.ToolFacts{openTool, deniedTool}[turn%2]))
		_ = fresh.PutServer(server, []callability.ServerFacts{openServer, offServer}[turn%2])
	}
	found, wanted := judged(t, inventory, policy, nil, callability.AllServers()), judged(t, fresh, policy, nil, callability.AllServers())
	if string(found.Counts()) != string(wanted.Counts()) {
		t.Errorf("found %s, wanted %s", found.Counts(), wanted.Counts())
	}
}

// BenchmarkCall measures how long a call waits for its decision, alone and while all tools are judged in one goroutine and
// the inventory changes in another. It reports the 99.9th percentile.
func BenchmarkCall(b *testing.B) {
	policy, agent := bundled(b, "agents-allowed.bundle"), named("ledger-bot")
	for _, name := range []string{"alone", "beside judgements and changes"} {
		b.Run(name, func(b *testing.B) {
			inventory, stop, ctx := filled(b, 10_000, 100), make(chan struct{}), b.Context()
			var group sync.WaitGroup
			beside := func(work func(turn int)) {
				group.Add(1)
				go func() {
					defer group.Done()
					for turn := 0; ; turn++ {
						select {
						case <-stop:
							return
						default:
							work(turn)
						}
					}
				}()
			}
			if name != "alone" {
				beside(func(turn int) {
					scope := callability.Servers(append(inventory.Servers(callability.AllServers()), fmt.Sprint("nowhere-", turn))...)
					judged(b, inventory, policy, agent, scope)
				})
				beside(func(turn int) {
					_ = inventory.Put("server-1", entry("tool_1", []callability.ToolFacts{openTool, deniedTool}[turn%2]))
					time.Sleep(time.Millisecond)
				})
			}
			took := make([]time.Duration, 0, 1<<20)
			for turn := 0; b.Loop(); turn++ {
				called := fmt.Sprintf("server-%d:tool_%d", turn%49, turn%199)
				started := time.Now()
				inventory.Decide(ctx, policy, agent, callability.AllServers(), called)
				took = append(took, time.Since(started))
			}
			close(stop)
			group.Wait()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*999/1000]), "p99.9-ns")
			b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
		})
	}
}

// BenchmarkAgents judges 10,000 tools for new agents of ten kinds: of two names that rules distinguish, each with five
// scopes. It reports what is held afterwards. A thousand agents should cost what ten do.
func BenchmarkAgents(b *testing.B) {
	policy, names := bundled(b, "agents-allowed.bundle"), []string{"ledger-bot", "stranger"}
	for _, count := range []int{10, 1_000} {
		b.Run(fmt.Sprintf("%d agents", count), func(b *testing.B) {
			grown := 0
			for b.Loop() {
				b.StopTimer()
				inventory := filled(b, 10_000, 100)
				every := inventory.Servers(callability.AllServers())
				before := held()
				b.StartTimer()
				for number := range count {
					scope := callability.Servers(every[number/2%5:]...)
					judged(b, inventory, policy, named(names[number%2]), scope)
				}
				b.StopTimer()
				grown = held() - before
				runtime.KeepAlive(inventory)
				b.StartTimer()
			}
			b.ReportMetric(float64(grown), "held-B")
		})
	}
}
