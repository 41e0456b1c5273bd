package callability

import (
	"encoding/hex"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/callability/callability/clients/go/internal/wording"
)

// A Policy is a compiled policy: immutable, and safe for concurrent use. The zero Policy, like a nil one, gives no answer:
// nothing is callable, and every text is withheld.
type Policy struct {
	payload *payload
	// number is another one for each policy of the process, so that what is kept for a policy can name it without keeping it.
	number      uint64
	digest      string
	verdicts    []answer
	ruleWords   []*Words
	statusWords []Words
	// words are those of statuses and of rules, as judgements have them.
	words        map[wordsKey]Words
	diagram      *walkable
	unread       *walkable
	unreadStarts [][]unreadStart
	axes         []axisPoints
	unknownTool  *toolPoints
	unknownAgent *agentPoints
	remaining    remainingPaths
	// later is shared by the verdicts of the policy.
	later *laterTries
	// loads and enables are made when they are first asked for: a proxy that only decides calls needs neither.
	loads   func() *outcomeRules
	enables func() *outcomeRules
}

// An answer is a verdict with what belongs to its status.
type answer struct {
	status Status
	// later says that the status is one of a later version.
	later        bool
	liftedBy     LiftedBy
	retry        Retry
	undetermined bool
	withhold     bool
	rule         int32
	place        int32
}

// policies counts the policies of the process.
var policies atomic.Uint64

func newPolicy(p *payload, digest []byte) *Policy {
	set := &p.ruleSets[questionTools]
	policy := &Policy{
		payload: p,
		number:  policies.Add(1),
		digest:  hex.EncodeToString(digest),
		later:   &laterTries{kept: map[string]bool{}},
		diagram: newWalkable(&set.diagram, set.axes, len(set.verdicts)),
		unread:  newWalkable(&set.unread, set.axes, 2),
		loads:   sync.OnceValue(func() *outcomeRules { return newOutcomeRules(&p.ruleSets[questionLoads]) }),
		enables: sync.OnceValue(func() *outcomeRules { return newOutcomeRules(&p.ruleSets[questionEnables]) }),
	}
	policy.addAnswers(set)
	policy.addWords(set)
	policy.unreadStarts = make([][]unreadStart, len(set.rules))
	for _, each := range set.unreadStarts {
		each.start = policy.unread.start(each.start)
		policy.unreadStarts[each.rule] = append(policy.unreadStarts[each.rule], each)
	}
	for _, each := range set.axes {
		policy.axes = append(policy.axes, newAxisPoints(each, set.facts))
	}
	policy.unknownAgent = policy.compileAgent(nil)
	policy.unknownTool = policy.compileTool(nil)
	return policy
}

func (p *Policy) addAnswers(set *ruleSet) {
	for _, each := range set.verdicts {
		status := set.statuses[each.status]
		found := answer{
			status:       statusOf(status.number),
			liftedBy:     LiftedBy(status.liftedBy),
			retry:        Retry(status.retry),
			undetermined: each.undetermined,
			withhold:     each.withhold,
			rule:         each.rule,
			place:        each.status,
		}
		if found.status == StatusUnspecified {
			// What this version knows of a status of a later one is that the tool is held back.
			found.status, found.later, found.withhold = StatusDisabledUnknown, true, true
		}
		p.verdicts = append(p.verdicts, found)
	}
}

func (p *Policy) addWords(set *ruleSet) {
	declared := map[string]string{}
	for _, each := range p.payload.actions {
		if _, fixed := wording.Neutral[each.name]; !fixed {
			declared[each.name] = each.phrase
		}
	}
	words := func(status int32, rule string, texts []string) Words {
		found := Words{Status: statusOf(set.statuses[status].number), Rule: rule, Phrases: declared}
		for place, name := range set.textNames {
			switch name {
			case "remediation":
				found.Remediation = texts[place]
			case "rejection":
				found.Rejection = texts[place]
			}
		}
		return found
	}
	p.statusWords = make([]Words, len(set.statuses))
	for _, each := range set.words {
		p.statusWords[each.status] = words(each.status, "", each.texts)
	}
	p.ruleWords = make([]*Words, len(set.rules))
	for number, each := range set.rules {
		if len(each.words) > 0 && p.statusWords[each.status].Status.known() {
			own := words(each.status, each.id, each.words)
			p.ruleWords[number] = &own
		}
	}
	p.words = map[wordsKey]Words{}
	for _, each := range p.statusWords {
		p.words[wordsKey{each.Status, ""}] = each
	}
	for _, each := range p.ruleWords {
		if each != nil {
			p.words[wordsKey{each.Status, each.Rule}] = *each
		}
	}
	delete(p.words, wordsKey{})
}

func (p *Policy) tools() *ruleSet { return &p.payload.ruleSets[questionTools] }

// Revision is SHA-256 over the rule files, in hexadecimal; empty without a policy.
func (p *Policy) Revision() string {
	if p == nil || p.payload == nil {
		return ""
	}
	return strings.Clone(p.payload.revision)
}

// Digest is SHA-256 over the payload of the bundle, in hexadecimal; empty without a policy.
func (p *Policy) Digest() string {
	if p == nil {
		return ""
	}
	return p.digest
}

// Sequence is the number that the publisher of the bundle counts up; 0: it is not counted.
func (p *Policy) Sequence() uint64 {
	if p == nil || p.payload == nil {
		return 0
	}
	return p.payload.sequence
}

// Decide answers why a tool can or cannot be called by an agent. It does not allocate after its first answer about a tool,
// an agent and a policy. A nil agent is unknown. Without a policy the verdict is the zero Verdict.
func (p *Policy) Decide(agent *Agent, tool *Tool) Verdict {
	if p == nil || p.payload == nil {
		return Verdict{}
	}
	t, a := tool.pointsIn(p), agent.pointsIn(p)
	if t.err != nil || a.err != nil {
		return Verdict{p, t, a, -1}
	}
	if t.start < 0 {
		return Verdict{p, t, a, ^t.start}
	}
	return Verdict{p, t, a, p.diagram.walk(t.start, t.points, a.points)}
}
