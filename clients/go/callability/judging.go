package callability

import (
	"maps"
	"slices"
	"time"
)

type judgementKey struct {
	agent  *Agent
	scope  string
	policy *Policy
}

// A keptJudgement is a judgement with what it was decided by, so that the next one decides only what has changed.
type keptJudgement struct {
	generation uint64
	judgement  *Judgement
	servers    map[string]keptServer
	// stamps are beside the tools of the judgement.
	stamps []stamp
	// decided is how many tools were decided for it.
	decided int
}

// A keptServer is where the tools of a server are in a judgement.
type keptServer struct {
	listed       *listedServer
	facts        *serverState
	first, after int
}

// A stamp is what a tool was decided by. Each Set of a handle makes a state of its own.
type stamp struct {
	facts   *toolState
	refusal string
}

// maxKept bounds the judgements that are kept; beyond it, all are forgotten.
const maxKept = 256

// Judge decides about every tool that an agent may see: those of the servers in its scope. The
// order is that of the names. What has not changed since the last time is not decided again; as long as nothing has, it is
// the same Judgement, so that a proxy can keep a search index beside it. An error is ErrNoPolicy, or ErrDuplicateTool.
func (i *Inventory) Judge(policy *Policy, agent *Agent, scope Scope) (*Judgement, error) {
	if i.Hooks.Metrics == nil {
		judgement, _, err := i.judge(policy, agent, scope)
		return judgement, err
	}
	started, outcome := time.Now(), "ok"
	judgement, decided, err := i.judge(policy, agent, scope)
	if err != nil {
		outcome = "unavailable"
	}
	i.Hooks.Measure("callability_client_tools_decided_total", float64(decided))
	i.Hooks.Measure("callability_client_call_seconds", time.Since(started).Seconds(), "method", "Judge", "outcome", outcome)
	return judgement, err
}

func (i *Inventory) judge(policy *Policy, agent *Agent, scope Scope) (found *Judgement, decided int, err error) {
	if policy == nil || policy.payload == nil {
		return nil, 0, ErrNoPolicy
	}
	i.mutex.Lock()
	defer i.mutex.Unlock()
	key := judgementKey{agent, scope.key(), policy}
	before := i.kept[key]
	if before != nil && before.generation == i.generation {
		return before.judgement, 0, nil
	}
	after, err := i.judged(before, key, scope)
	if err != nil {
		return nil, after.decided, err
	}
	if i.kept == nil || len(i.kept) >= maxKept {
		i.kept = map[judgementKey]*keptJudgement{}
	}
	i.kept[key] = after
	return after.judgement, after.decided, nil
}

// judged returns a judgement with what a judgement before it has that still holds.
func (i *Inventory) judged(before *keptJudgement, key judgementKey, scope Scope) (*keptJudgement, error) {
	if before == nil {
		before = &keptJudgement{judgement: &Judgement{}}
	}
	count := len(before.stamps)
	after := &keptJudgement{
		generation: i.generation,
		judgement:  &Judgement{adapter: i.Adapter, tools: make([]judged, 0, count), words: key.policy.words},
		servers:    make(map[string]keptServer, len(i.servers)),
		stamps:     make([]stamp, 0, count),
	}
	for _, name := range slices.Sorted(maps.Keys(i.servers)) {
		if scope.Includes(name) {
			after.addServer(before, i.servers[name], key)
		}
	}
	if before.judgement.byName != nil && i.names <= before.generation {
		after.judgement.byName = before.judgement.byName
		return after, nil
	}
	return after, after.judgement.index()
}

func (k *keptJudgement) addServer(before *keptJudgement, server *listedServer, key judgementKey) {
	kept := before.servers[server.handle.Name()]
	now := keptServer{listed: server, facts: server.handle.state.Load(), first: len(k.stamps)}
	if kept.listed == server && server.changed <= before.generation {
		k.judgement.tools = append(k.judgement.tools, before.judgement.tools[kept.first:kept.after]...)
		k.stamps = append(k.stamps, before.stamps[kept.first:kept.after]...)
	} else {
		if kept.facts != now.facts {
			// The facts of a server are those of all its tools.
			kept.first = kept.after
		}
		k.addTools(before, kept, server, key)
	}
	now.after = len(k.stamps)
	k.servers[server.handle.Name()] = now
}

// addTools adds the tools of a server that has changed. Both the tools that were kept and those of now are in the order of
// their names.
func (k *keptJudgement) addTools(before *keptJudgement, kept keptServer, server *listedServer, key judgementKey) {
	for _, name := range server.sorted() {
		tool := server.tools[name]
		now := stamp{tool.handle.state.Load(), tool.refusal}
		for kept.first < kept.after && before.judgement.tools[kept.first].tool < name {
			kept.first++
		}
		if kept.first < kept.after && before.stamps[kept.first] == now {
			k.judgement.tools = append(k.judgement.tools, before.judgement.tools[kept.first])
		} else {
			answer := key.policy.Decide(key.agent, tool.handle).Answer()
			item := Item{server.handle.Name(), name, answer, tool.refusal}
			k.judgement.tools = append(k.judgement.tools, k.judgement.judged(&item))
			k.decided++
		}
		k.judgement.tools[len(k.judgement.tools)-1].text = tool.text
		k.stamps = append(k.stamps, now)
	}
}

func (s *listedServer) sorted() []string {
	if s.names == nil {
		s.names = slices.Sorted(maps.Keys(s.tools))
	}
	return s.names
}
