package callability

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/callability/callability/clients/go/internal/wording"
)

// An Explanation is a verdict and how it was reached.
type Explanation struct {
	Verdict Verdict
	// Facts are the facts that rules read, as they were understood.
	Facts []FactValue
	// Trials are the rules that were tried, in order. The last of them decided.
	Trials []Trial
	// Path is what would make the tool callable.
	Path Path
}

// A FactValue is the value of a fact; `unknown` if it could not be read.
type FactValue struct{ Fact, Value string }

// A Trial is the outcome of trying one rule.
type Trial struct {
	Rule string
	// Status is StatusUnspecified if it is one of a later version.
	Status Status
	Truth  Truth
	// Reads are the facts that the condition reads, with their values.
	Reads []FactValue
	// Why says in one sentence why the rule decided or did not.
	Why string
}

const (
	unknownValue   = "unknown"
	maxListedFacts = 20
)

// An explained is one combination of facts, as readings and as people read it.
type explained struct {
	policy   *Policy
	set      *ruleSet
	readings []int32
	// names are the names that were given, by the place of the fact.
	names map[int32]string
}

// Explain decides about a tool, says which rules were tried, and what would make the tool callable. It is for people, and
// allocates. An error is that of the verdict.
func (p *Policy) Explain(agent *Agent, tool *Tool) (Explanation, error) {
	verdict := p.Decide(agent, tool)
	if err := verdict.Err(); err != nil {
		return Explanation{Verdict: verdict}, err
	}
	e := &explained{policy: p, set: p.tools(), names: map[int32]string{}}
	e.readings = p.readings(agent, tool)
	for place := range e.set.facts {
		if fact := &e.set.facts[place]; fact.kind == factName {
			e.addName(int32(place), fact.subject, agent, tool)
		}
	}
	found := Explanation{Verdict: verdict, Trials: e.trials(), Path: e.path()}
	for _, place := range e.set.listedFacts {
		found.Facts = append(found.Facts, e.value(place))
	}
	return found, nil
}

func (e *explained) addName(place, subject int32, agent *Agent, tool *Tool) {
	switch {
	case subject == subjectServer:
		e.names[place] = tool.server.name.text
	case subject == subjectTool:
		e.names[place] = tool.name.text
	case agent != nil && agent.facts != nil:
		e.names[place] = agent.name.text
	default:
		return
	}
	if fact := &e.set.facts[place]; e.names[place] == unknownValue && int(e.readings[place]) < len(fact.values) {
		// A readable name may be spelled like the word for an unreadable one.
		e.names[place] = fact.values[e.readings[place]]
	}
}

func (e *explained) value(place int32) FactValue {
	fact := &e.set.facts[place]
	if name, given := e.names[place]; given && int(e.readings[place]) < max(1, len(fact.values)) {
		return FactValue{fact.name, name}
	}
	return FactValue{fact.name, fact.text(e.readings[place])}
}

func (f *fact) text(reading int32) string {
	if int(reading) < len(f.values) {
		return f.values[reading]
	}
	return unknownValue
}

func (e *explained) trials() []Trial {
	var found []Trial
	for number := range e.set.rules {
		rule := &e.set.rules[number]
		trial := Trial{
			Rule:   rule.id,
			Status: statusOf(e.set.statuses[rule.status].number),
			Truth:  e.set.truth(rule.condition, e.readings),
		}
		for _, fact := range e.set.factsRead(rule.condition) {
			trial.Reads = append(trial.Reads, e.value(fact))
		}
		trial.Why = e.why(rule, trial.Truth)
		if found = append(found, trial); trial.Truth != TruthDoesNotHold {
			break
		}
	}
	return found
}

func (e *explained) why(rule *rule, truth Truth) string {
	status := e.set.statuses[rule.status].name
	switch {
	case rule.condition == absent:
		return fmt.Sprintf("has no condition: gives `%s`", status)
	case truth == TruthUndetermined:
		unread := e.policy.unreadAt(e.set, e.readings)
		are := "which are"
		if len(unread) == 1 {
			are = "which is"
		}
		return fmt.Sprintf("cannot be decided without %s, %s unknown: gives `%s`", listed(unread), are,
			e.set.statuses[e.set.undetermined].name)
	}
	var reasons []string
	for _, place := range e.reasons(rule.condition, truth) {
		value := e.value(place)
		if e.set.facts[place].kind == factName && value.Value != unknownValue {
			value.Value = shown(value.Value)
		}
		reasons = append(reasons, fmt.Sprintf("`%s` is %s", value.Fact, value.Value))
	}
	since := strings.Join(reasons, " and ")
	if truth == TruthHolds {
		return fmt.Sprintf("holds, since %s: gives `%s`", since, status)
	}
	return "does not hold, since " + since
}

// reasons are facts that a condition reads and that alone make it true or false, whatever the others are.
func (e *explained) reasons(condition int32, truth Truth) []int32 {
	known := slices.Clone(e.readings)
	read := e.set.factsRead(condition)
	for place := len(read) - 1; place >= 0; place-- {
		fact := read[place]
		value := known[fact]
		known[fact] = int32(len(e.set.facts[fact].values))
		if e.set.truth(condition, known) != truth {
			known[fact] = value
		}
	}
	return slices.DeleteFunc(read, func(fact int32) bool { return int(known[fact]) >= len(e.set.facts[fact].values) })
}

// unreadAt are the unknown facts that keep the verdict at some readings undetermined.
func (p *Policy) unreadAt(set *ruleSet, readings []int32) []string {
	points := make([]int32, len(p.axes))
	for place := range p.axes {
		if points[place] = p.axes[place].point(readings); points[place] < 0 {
			return nil
		}
	}
	verdict := p.verdicts[p.diagram.walk(p.diagram.root(), points, points)]
	if !verdict.undetermined {
		return nil
	}
	var found []string
	for _, each := range p.unreadStarts[verdict.rule] {
		if p.unread.walk(each.start, points, points) == 1 {
			found = append(found, set.facts[each.fact].name)
		}
	}
	return found
}

// shown is somebody's word in backticks, fit for one line: escaped, and cut at 128 characters.
func shown(word string) string {
	var escaped strings.Builder
	for _, character := range word {
		if character != '`' && (character == ' ' || unicode.IsGraphic(character) && !unicode.Is(unicode.Z, character)) {
			escaped.WriteRune(character)
		} else {
			fmt.Fprintf(&escaped, `\u%04x`, character)
		}
	}
	text := escaped.String()
	if first := wording.Cut(text, wording.MaxShownName); first != text {
		text = wording.Cut(text, wording.MaxShownName-1) + "…"
	}
	return "`" + text + "`"
}

func listed(names []string) string {
	every := make([]string, 0, len(names))
	for _, name := range names[:min(len(names), maxListedFacts)] {
		every = append(every, shown(name))
	}
	more := ""
	if left := len(names) - maxListedFacts; left > 0 {
		more = fmt.Sprintf(" and %d more", left)
	}
	return strings.Join(every, ", ") + more
}
