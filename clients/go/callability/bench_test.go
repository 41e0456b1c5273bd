package callability

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
)

// An ifFacts is what a proxy without callability would look at.
type ifFacts struct {
	enabled, denied, quarantined, disabled Bool
	status                                 ApprovalStatus
	noRecord, refuses                      bool
}

//go:noinline
func ifChain(f *ifFacts) Status {
	if f.enabled == False {
		return StatusServerDisabled
	}
	if f.enabled == Unknown {
		return StatusDisabledUnknown
	}
	if f.denied == True {
		return StatusDisabledByConfig
	}
	if f.denied == Unknown {
		return StatusDisabledUnknown
	}
	if f.quarantined == True {
		return StatusServerQuarantined
	}
	if f.quarantined == Unknown {
		return StatusDisabledUnknown
	}
	if f.disabled == True {
		return StatusDisabledByUser
	}
	if f.disabled == Unknown {
		return StatusDisabledUnknown
	}
	if !f.noRecord {
		if f.status == ApprovalPending || f.status == ApprovalChanged {
			return StatusPendingApproval
		}
		if f.status == ApprovalUnknown {
			return StatusDisabledUnknown
		}
	}
	if f.refuses {
		return StatusDisabledUnknown
	}
	return StatusCallable
}

func draw(random *rand.Rand) ifFacts {
	truth := func(likely Bool) Bool {
		if random.IntN(3) > 0 {
			return likely
		}
		return Bool(random.IntN(3))
	}
	facts := ifFacts{
		enabled: truth(True), denied: truth(False), quarantined: truth(False), refuses: random.IntN(5) == 0,
		noRecord: random.IntN(2) == 0, disabled: False,
	}
	if !facts.noRecord {
		facts.disabled, facts.status = truth(False), ApprovalStatus(random.IntN(4))
	}
	return facts
}

// tool returns a handle with the same facts.
func (f ifFacts) tool() *Tool {
	approval := NoRecord()
	if !f.noRecord {
		approval = Record(f.disabled, f.status)
	}
	server := NewServer("git", ServerFacts{Enabled: f.enabled, Quarantined: f.quarantined, Labels: NoLabels()})
	return server.Tool("git_status", ToolFacts{
		ConfigDenied: f.denied, Approval: approval, CallerRefuses: f.refuses, Annotations: &Annotations{}, Labels: NoLabels(),
	})
}

// BenchmarkDecision compares the ways to decide the same 1,024 drawn facts under the shipped policy.
//
// `if-chain` is what a proxy would write by hand. `walk` takes the whole diagram from the points of a handle, so that
// nothing of a decision is saved. `Decide` is the public call, which has walked the part of the tool in advance. `register`
// turns facts into a handle, and `With` changes its facts: what it costs once a change, with a first decision.
func BenchmarkDecision(b *testing.B) {
	policy, err := ReadPolicyFile("../shipped/policy.bundle")
	if err != nil {
		b.Fatal(err)
	}
	const count = 1024
	random := rand.New(rand.NewPCG(7, 11))
	agent := NewAgent(AgentFacts{})
	facts, tools, points := make([]ifFacts, count), make([]*Tool, count), make([]*toolPoints, count)
	for number := range facts {
		facts[number] = draw(random)
		tools[number] = facts[number].tool()
		points[number] = tools[number].pointsIn(policy)
		if found, wanted := policy.Decide(agent, tools[number]).Status(), ifChain(&facts[number]); found != wanted {
			b.Fatalf("%+v: found %s, wanted %s", facts[number], found, wanted)
		}
	}
	root := policy.diagram.root()
	agentPoints := agent.pointsIn(policy).points
	b.Run("if-chain", func(b *testing.B) {
		for index := 0; b.Loop(); index++ {
			answeredStatus = ifChain(&facts[index&(count-1)])
		}
	})
	b.Run("walk", func(b *testing.B) {
		b.ReportAllocs()
		for index := 0; b.Loop(); index++ {
			answeredNumber = policy.diagram.walk(root, points[index&(count-1)].points, agentPoints)
		}
	})
	b.Run("Decide", func(b *testing.B) {
		b.ReportAllocs()
		for index := 0; b.Loop(); index++ {
			answeredStatus = policy.Decide(agent, tools[index&(count-1)]).Status()
		}
	})
	b.Run("With and Decide", func(b *testing.B) {
		b.ReportAllocs()
		for index := 0; b.Loop(); index++ {
			tool := tools[index&(count-1)]
			tool = tool.With(tool.facts)
			answeredStatus = policy.Decide(agent, tool).Status()
		}
	})
	b.Run("register and Decide", func(b *testing.B) {
		b.ReportAllocs()
		for index := 0; b.Loop(); index++ {
			answeredStatus = policy.Decide(agent, facts[index&(count-1)].tool()).Status()
		}
	})
}

// BenchmarkLargeDecision decides drawn facts under another policy, such as one over 200 agents and 8 labels of servers:
//
//	python -m bench.large_policies agents-and-labels DIR
//	callability bundle build DIR --output FILE
//	CALLABILITY_BUNDLE=FILE go test -run '^$' -bench Large .
func BenchmarkLargeDecision(b *testing.B) {
	path := os.Getenv("CALLABILITY_BUNDLE")
	if path == "" {
		b.Skip("CALLABILITY_BUNDLE names no bundle")
	}
	policy, err := ReadPolicyFile(path)
	if err != nil {
		b.Fatal(err)
	}
	const count = 1024
	random := rand.New(rand.NewPCG(7, 11))
	agents, tools := make([]*Agent, count), make([]*Tool, count)
	statuses := map[Status]int{}
	for number := range tools {
		agents[number] = NewAgent(AgentFacts{Name: fmt.Sprintf("%c%d", 'a'+rune(random.IntN(2)), random.IntN(100)), Labels: NoLabels()})
		labels := Labels{}
		for key := range 8 {
			labels[fmt.Sprintf("k%d", key)] = fmt.Sprintf("v%d", random.IntN(6))
		}
		server := NewServer("git", ServerFacts{Enabled: True, Quarantined: False, Labels: labels})
		tools[number] = server.Tool("git_status", ToolFacts{
			ConfigDenied: False, Approval: NoRecord(), Annotations: &Annotations{}, Labels: NoLabels(),
		})
		statuses[policy.Decide(agents[number], tools[number]).Status()]++
	}
	if len(statuses) < 2 {
		b.Fatalf("every tool has the same status: %v", statuses)
	}
	b.ReportAllocs()
	for index := 0; b.Loop(); index++ {
		answeredStatus = policy.Decide(agents[index&(count-1)], tools[index&(count-1)]).Status()
	}
}

var (
	answeredStatus Status
	answeredNumber int32
)
