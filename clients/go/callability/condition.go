package callability

import (
	"slices"

	"github.com/callability/callability/clients/go/internal/enum"
)

// A Truth is the value of a condition in Kleene's three-valued logic.
type Truth uint8

// The values of a condition. The numbers are those of the contract.
const (
	// TruthUnspecified: there is no explanation.
	TruthUnspecified Truth = iota
	// TruthHolds: the rule decided.
	TruthHolds
	// TruthDoesNotHold: the next rule was tried.
	TruthDoesNotHold
	// TruthUndetermined: it depends on an unknown fact, so that the tool is held back.
	TruthUndetermined
)

var truthNames = [...]string{"unspecified", "true", "false", "undetermined"}

func (t Truth) String() string { return enum.Name(t, truthNames[:]) }

// MarshalText returns the word that String returns.
func (t Truth) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads a word that String returns. A number of a later version is an error.
func (t *Truth) UnmarshalText(text []byte) error { return enum.Parse(t, text, truthNames[:]) }

func (t Truth) negated() Truth {
	switch t {
	case TruthHolds:
		return TruthDoesNotHold
	case TruthDoesNotHold:
		return TruthHolds
	}
	return t
}

// truth returns the value of a condition, which absent holds. Parts come before what they belong to, so that one pass
// over them is enough, however deep they nest.
func (s *ruleSet) truth(condition int32, readings []int32) Truth {
	if condition == absent {
		return TruthHolds
	}
	first := s.firstPart(condition)
	values := make([]Truth, condition-first+1)
	for number := first; number <= condition; number++ {
		part := &s.parts[number]
		values[number-first] = s.partTruth(part, readings, values, first)
	}
	return values[condition-first]
}

// firstPart is the first of the parts that a condition consists of.
func (s *ruleSet) firstPart(condition int32) int32 {
	first, left := condition, []int32{condition}
	for len(left) > 0 {
		last := left[len(left)-1]
		left = append(left[:len(left)-1], s.parts[last].parts...)
		first = min(first, last)
	}
	return first
}

func (s *ruleSet) partTruth(p *part, readings []int32, values []Truth, first int32) Truth {
	inner := func(number int32) Truth {
		if number < first {
			return TruthUndetermined
		}
		return values[number-first]
	}
	switch p.kind {
	case conditionFactIs:
		if int(readings[p.fact]) >= len(s.facts[p.fact].values) {
			return TruthUndetermined
		}
		if slices.Contains(p.readings, readings[p.fact]) {
			return TruthHolds
		}
		return TruthDoesNotHold
	case conditionNot:
		return inner(p.parts[0]).negated()
	}
	deciding := TruthDoesNotHold
	if p.kind == conditionAny {
		deciding = TruthHolds
	}
	found := deciding.negated()
	for _, number := range p.parts {
		switch inner(number) {
		case deciding:
			return deciding
		case TruthUndetermined:
			found = TruthUndetermined
		}
	}
	return found
}

// factsRead are the facts that a condition reads, each once, in the order of the text.
func (s *ruleSet) factsRead(condition int32) []int32 {
	if condition == absent {
		return nil
	}
	var found []int32
	left := []int32{condition}
	for len(left) > 0 {
		part := &s.parts[left[len(left)-1]]
		left = left[:len(left)-1]
		if part.kind == conditionFactIs && !slices.Contains(found, part.fact) {
			found = append(found, part.fact)
		}
		for place := len(part.parts) - 1; part.kind != conditionFactIs && place >= 0; place-- {
			left = append(left, part.parts[place])
		}
	}
	return found
}

// decided returns the rule that is reached at some readings, and whether it is undetermined: the semantics of a rule set.
func (s *ruleSet) decided(readings []int32) (rule int32, undetermined bool) {
	for number := range s.rules {
		if truth := s.truth(s.rules[number].condition, readings); truth != TruthDoesNotHold {
			return int32(number), truth == TruthUndetermined
		}
	}
	return int32(len(s.rules) - 1), false
}
