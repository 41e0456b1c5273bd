package callability

import (
	"container/list"
	"context"
	"errors"
	"runtime"
	"sync"
	"time"
	"weak"
)

// Judge decides about every tool that an agent may see: those of the servers in its scope, in the order of their names. What
// has not changed since the last time is not decided again; as long as nothing has, it is the same Judgement, so that a
// proxy can keep a search index beside it. It is the same too for agents that no rule of the policy distinguishes. While
// another goroutine makes that judgement, Judge waits for it, at most until the context ends. An error is [ErrNoPolicy], or
// that of the context.
func (i *Inventory) Judge(ctx context.Context, policy *Policy, agent *Agent, scope Scope) (*Judgement, error) {
	if i.Hooks.Metrics == nil {
		judgement, _, err := i.judge(ctx, policy, agent, scope)
		return judgement, err
	}
	started, outcome := time.Now(), "ok"
	judgement, decided, err := i.judge(ctx, policy, agent, scope)
	switch {
	case errors.Is(err, context.Canceled):
		outcome = "cancelled"
	case err != nil:
		outcome = "unavailable"
	}
	i.Hooks.Measure("callability_client_tools_decided_total", float64(decided))
	i.Hooks.Measure("callability_client_call_seconds", time.Since(started).Seconds(), "method", "Judge", "outcome", outcome)
	return judgement, err
}

func (i *Inventory) judge(ctx context.Context, policy *Policy, agent *Agent, scope Scope) (found *Judgement, decided int, err error) {
	if policy == nil || policy.payload == nil {
		return nil, 0, ErrNoPolicy
	}
	key := judgementKey{policy.number, agent.pointsIn(policy).key, scope.key}
	since := i.listing().version
	for {
		before, running := i.kept.acquire(key, since)
		if running != nil {
			select {
			case <-running:
				continue
			case <-ctx.Done():
				return nil, 0, ctx.Err()
			}
		}
		if before != nil && before.version >= since {
			return before.judgement, 0, nil
		}
		after, decided := i.judgeAfter(before, policy, agent, scope, key)
		return after.judgement, decided, nil
	}
}

// judgeAfter judges what has changed since a judgement, and keeps the result. Others with the same key wait for it.
func (i *Inventory) judgeAfter(
	before *keptJudgement, policy *Policy, agent *Agent, scope Scope, key judgementKey,
) (after *keptJudgement, decided int) {
	now := i.listing()
	defer func() {
		if i.kept.release(key, after, i.maxBytes()+now.bytes) {
			// What is kept must not keep the policy, nor the policy the inventory.
			runtime.AddCleanup(policy, func(inventory weak.Pointer[Inventory]) {
				if found := inventory.Value(); found != nil {
					found.kept.drop(key.policy)
				}
			}, weak.Make(i))
		}
	}()
	next := judging{policy: policy, agent: agent, before: &Judgement{}, duplicates: now.duplicates(i.Adapter, scope)}
	if before != nil && len(next.duplicates)+len(before.judgement.duplicates) == 0 {
		next.before = before.judgement
	}
	next.judgement = &Judgement{adapter: i.Adapter, words: policy.words, tools: make([]judged, 0, now.count(scope))}
	for _, server := range now.servers {
		if scope.Includes(server.handle.Name()) {
			next.addServer(server)
		}
	}
	after = &keptJudgement{key: key, version: now.version, judgement: next.judgement}
	if before != nil && next.same == len(next.judgement.servers) && next.same == len(next.before.servers) {
		after.judgement = next.before
	}
	return after, next.decided
}

const defaultMaxBytes = 64 << 20

func (i *Inventory) maxBytes() int {
	if i.MaxBytes > 0 {
		return i.MaxBytes
	}
	return defaultMaxBytes
}

// A judging makes a judgement out of one before it.
type judging struct {
	policy     *Policy
	agent      *Agent
	before     *Judgement
	duplicates map[*listedTool]bool
	judgement  *Judgement
	// place is that of the next server of the judgement before.
	place int
	// same are the servers that have not changed.
	same    int
	decided int
}

func (j *judging) addServer(server *listedServer) {
	name := server.handle.Name()
	for j.place < len(j.before.servers) && j.before.servers[j.place].listed.handle.Name() < name {
		j.place++
	}
	var kept judgedServer
	if j.place < len(j.before.servers) && j.before.servers[j.place].listed.handle.Name() == name {
		kept = j.before.servers[j.place]
	}
	now := judgedServer{listed: server, first: len(j.judgement.tools)}
	if kept.listed == server {
		j.same++
		j.judgement.tools = append(j.judgement.tools, j.before.tools[kept.first:kept.after]...)
	} else {
		j.addTools(j.before.tools[kept.first:kept.after], server)
	}
	now.after = len(j.judgement.tools)
	j.judgement.servers = append(j.judgement.servers, now)
}

// addTools adds the tools of a server that has changed. Both the tools that were kept and those of now are in the order of
// their names.
func (j *judging) addTools(kept []judged, server *listedServer) {
	for _, tool := range server.tools {
		if j.duplicates[tool] {
			j.judgement.duplicates = append(j.judgement.duplicates, tool.name)
			continue
		}
		for len(kept) > 0 && kept[0].tool < tool.tool {
			kept = kept[1:]
		}
		if len(kept) > 0 && kept[0].handle == tool.handle && kept[0].refusal == tool.refusal {
			same := kept[0]
			same.listedTool = tool
			j.judgement.tools = append(j.judgement.tools, same)
			continue
		}
		answer := j.policy.Decide(j.agent, tool.handle).answerOfMany()
		j.judgement.tools = append(j.judgement.tools, j.judgement.judged(tool, &answer))
		j.decided++
	}
}

// A judgementKey is equal for judgements that are equal. An agent is what the policy can distinguish of it.
type judgementKey struct {
	policy       uint64
	agent, scope string
}

type keptJudgement struct {
	key judgementKey
	// version is that of the listing.
	version   uint64
	judgement *Judgement
}

const (
	judgedBytes    = 32
	judgementBytes = 512
)

func (k *keptJudgement) bytes() int {
	return judgementBytes + judgedBytes*(cap(k.judgement.tools)+len(k.judgement.servers)) + len(k.key.agent) + len(k.key.scope)
}

// keptJudgements are those that an inventory keeps. Its mutex is held to look up and to put down, and never while anything
// is decided.
type keptJudgements struct {
	mutex sync.Mutex
	byKey map[judgementKey]*list.Element
	// used are the judgements, the most recently used first.
	used list.List
	// running are closed when the judgement of a key is there.
	running map[judgementKey]chan struct{}
	// servers are how many judgements refer to a server and its tools: the bytes of each count once.
	servers  map[*listedServer]int
	policies map[uint64]bool
	bytes    int
}

// acquire returns the judgement of a key, which is not older than a version unless the caller has to release another one; or
// what is closed once somebody else has.
func (k *keptJudgements) acquire(key judgementKey, since uint64) (found *keptJudgement, running chan struct{}) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if element := k.byKey[key]; element != nil {
		k.used.MoveToFront(element)
		if found = element.Value.(*keptJudgement); found.version >= since {
			return found, nil
		}
	}
	if running := k.running[key]; running != nil {
		return nil, running
	}
	if k.running == nil {
		k.byKey, k.running = map[judgementKey]*list.Element{}, map[judgementKey]chan struct{}{}
		k.servers, k.policies = map[*listedServer]int{}, map[uint64]bool{}
	}
	k.running[key] = make(chan struct{})
	return found, nil
}

// release keeps a judgement, nil if there is none, and reports whether it is the first by its policy.
func (k *keptJudgements) release(key judgementKey, after *keptJudgement, maxBytes int) (isFirst bool) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	close(k.running[key])
	delete(k.running, key)
	if after == nil {
		return false
	}
	if element := k.byKey[key]; element != nil {
		k.remove(element)
	}
	k.byKey[key] = k.used.PushFront(after)
	k.bytes += after.bytes()
	for _, each := range after.judgement.servers {
		if k.servers[each.listed]++; k.servers[each.listed] == 1 {
			k.bytes += each.listed.bytes
		}
	}
	for k.used.Len() > 1 && k.bytes > maxBytes {
		k.remove(k.used.Back())
	}
	isFirst = !k.policies[key.policy]
	k.policies[key.policy] = true
	return isFirst
}

// drop forgets the judgements by a policy.
func (k *keptJudgements) drop(policy uint64) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	delete(k.policies, policy)
	for key, element := range k.byKey {
		if key.policy == policy {
			k.remove(element)
		}
	}
}

func (k *keptJudgements) remove(element *list.Element) {
	found := k.used.Remove(element).(*keptJudgement)
	delete(k.byKey, found.key)
	k.bytes -= found.bytes()
	for _, each := range found.judgement.servers {
		if k.servers[each.listed]--; k.servers[each.listed] == 0 {
			delete(k.servers, each.listed)
			k.bytes -= each.listed.bytes
		}
	}
}
