package callability

import (
	"fmt"
	"slices"
	"strings"
)

// The numbers of the enums that a bundle uses.
const (
	factField = 1 + iota
	factLabel
	factName
	factDeclared
)

const (
	subjectServer = 1 + iota
	subjectTool
	subjectAgent
	subjectLoad
	subjectEnable
)

// maxEntry is the last of what can happen to the entry of a server in an enable.
const maxEntry = 3

const (
	conditionFactIs = 1 + iota
	conditionAll
	conditionAny
	conditionNot
)

var questions = [...]string{"callability", "load_outcome", "enable_outcome"}

// The places of the rule sets in a payload.
const (
	questionTools = iota
	questionLoads
	questionEnables
)

func (p *payload) check() error {
	if len(p.revision) != 64 || strings.Trim(p.revision, "0123456789abcdef") != "" {
		return fmt.Errorf("found the revision %.80q, wanted 64 hexadecimal digits in small letters", p.revision)
	}
	if len(p.ruleSets) != len(questions) {
		return fmt.Errorf("found %d rule sets, wanted %d", len(p.ruleSets), len(questions))
	}
	for _, each := range p.actions {
		if each.name == "" || each.owner < 1 || each.owner > int32(LiftedByNone) {
			return fmt.Errorf("found owner %d of action %.80q, wanted 1 to %d", each.owner, each.name, LiftedByNone)
		}
	}
	for number := range p.ruleSets {
		each := &p.ruleSets[number]
		if each.question != questions[number] {
			return fmt.Errorf("found the rule set %.80q, wanted %q", each.question, questions[number])
		}
		if err := each.check(); err != nil {
			return fmt.Errorf("rule set %q: %w", each.question, err)
		}
	}
	return nil
}

func (s *ruleSet) check() error {
	for _, check := range []func() error{
		s.checkFacts, s.checkStatuses, s.checkParts, s.checkRules, s.checkAxes, s.checkVerdicts, s.checkDiagrams,
		s.counts.check,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// within reports whether a place lies in a list of some length.
func within(what string, place int32, length int) error {
	if place < 0 || int(place) >= length {
		return fmt.Errorf("found %s %d, wanted less than %d", what, place, length)
	}
	return nil
}

func (s *ruleSet) checkFacts() error {
	names := map[string]bool{}
	for number := range s.facts {
		each := &s.facts[number]
		if each.name == "" || names[each.name] {
			return fmt.Errorf("found the name %.80q of a fact, wanted one that is no other's", each.name)
		}
		names[each.name] = true
		if err := each.check(); err != nil {
			return fmt.Errorf("fact %.80q: %w", each.name, err)
		}
	}
	return nil
}

func (f *fact) check() error {
	keyed := f.kind == factLabel || f.kind == factDeclared
	switch {
	case f.kind < factField || f.kind > factDeclared:
		return fmt.Errorf("found kind %d, wanted 1 to %d", f.kind, factDeclared)
	case f.subject < subjectServer || f.subject > subjectEnable:
		return fmt.Errorf("found subject %d, wanted 1 to %d", f.subject, subjectEnable)
	case f.changedBy > int32(LiftedByNone):
		return fmt.Errorf("found that %d changes it, wanted at most %d", f.changedBy, LiftedByNone)
	case keyed != (f.key != ""):
		return fmt.Errorf("found the key %.80q of kind %d", f.key, f.kind)
	}
	if f.kind != factName || len(f.values) > 0 || f.defaultValue != 0 {
		if err := within("default", f.defaultValue, len(f.values)); err != nil {
			return err
		}
	}
	if different := slices.Compact(slices.Sorted(slices.Values(f.values))); len(different) != len(f.values) {
		return fmt.Errorf("found a value twice")
	}
	return f.checkClasses()
}

func (f *fact) checkClasses() error {
	if f.kind != factName {
		if len(f.classes) > 0 || len(f.groups) > 0 {
			return fmt.Errorf("found classes of names, and it is none")
		}
		return nil
	}
	if len(f.classes) != len(f.values) {
		return fmt.Errorf("found %d classes of names, wanted %d", len(f.classes), len(f.values))
	}
	seen := map[string]bool{}
	for _, class := range f.classes {
		for place, group := range class {
			if err := within("group of patterns", group, len(f.groups)); err != nil {
				return err
			}
			if place > 0 && group <= class[place-1] {
				return fmt.Errorf("found group of patterns %d after %d, wanted ascending places", group, class[place-1])
			}
		}
		key := fmt.Sprint(class)
		if seen[key] {
			return fmt.Errorf("found the class of names %.80s twice", key)
		}
		seen[key] = true
	}
	return nil
}

var textNames = map[string][]string{
	"callability":    {"remediation", "rejection"},
	"load_outcome":   {"message"},
	"enable_outcome": {"message"},
}

func (s *ruleSet) checkStatuses() error {
	if !slices.Equal(s.textNames, textNames[s.question]) {
		return fmt.Errorf("found the texts %.80q, wanted %q", s.textNames, textNames[s.question])
	}
	names, numbers := map[string]bool{}, map[int32]bool{}
	for _, each := range s.statuses {
		if each.liftedBy < 1 || each.liftedBy > int32(LiftedByNone) || each.retry < 1 || each.retry > int32(RetryNow) {
			return fmt.Errorf("status %.80q: found lifted by %d and retry %d, wanted 1 to %d and 1 to %d",
				each.name, each.liftedBy, each.retry, LiftedByNone, RetryNow)
		}
		if each.entry > maxEntry {
			return fmt.Errorf("status %.80q: found entry %d, wanted at most %d", each.name, each.entry, maxEntry)
		}
		if each.name == "" || each.number == 0 || names[each.name] || numbers[each.number] {
			return fmt.Errorf("found status %.80q with number %d, wanted a name and a number of its own", each.name, each.number)
		}
		names[each.name], numbers[each.number] = true, true
	}
	if err := within("undetermined status", s.undetermined, len(s.statuses)); err != nil {
		return err
	}
	if s.open != absent {
		if err := within("open status", s.open, len(s.statuses)); err != nil {
			return err
		}
	}
	said := map[int32]bool{}
	for _, each := range s.words {
		if err := within("status of words", each.status, len(s.statuses)); err != nil {
			return err
		}
		if said[each.status] || len(each.texts) != len(s.textNames) {
			return fmt.Errorf("found words of status %d twice, or %d texts of it", each.status, len(each.texts))
		}
		said[each.status] = true
	}
	return nil
}

func (s *ruleSet) checkRules() error {
	if len(s.rules) == 0 || s.rules[len(s.rules)-1].condition != absent {
		return fmt.Errorf("found no last rule without a condition")
	}
	ids := map[string]bool{}
	for _, each := range s.rules {
		if err := within("status of a rule", each.status, len(s.statuses)); err != nil {
			return err
		}
		if each.id == "" || ids[each.id] {
			return fmt.Errorf("found the id %.80q of a rule, wanted one that is no other's", each.id)
		}
		ids[each.id] = true
		if len(each.words) != 0 && len(each.words) != len(s.textNames) {
			return fmt.Errorf("found %d texts of rule %.80q, wanted %d", len(each.words), each.id, len(s.textNames))
		}
	}
	for _, each := range s.laws {
		for _, status := range each.statuses {
			if err := within("status of a law", status, len(s.statuses)); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxDigits is how many digits a count may have: a space of combinations may be of any size.
const maxDigits = 4000

func (c *counts) check() error {
	for _, each := range []string{c.combinations, c.regions, c.confirmed} {
		if each == "" || len(each) > maxDigits || strings.Trim(each, "0123456789") != "" {
			return fmt.Errorf("found the count %.40q, wanted a decimal number", each)
		}
	}
	return nil
}
