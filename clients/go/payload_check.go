package callability

import (
	"encoding/hex"
	"fmt"
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
	if digest, err := hex.DecodeString(p.revision); err != nil || len(digest) != 32 {
		return fmt.Errorf("found the revision %.80q, wanted 64 hexadecimal digits", p.revision)
	}
	if len(p.ruleSets) != len(questions) {
		return fmt.Errorf("found %d rule sets, wanted %d", len(p.ruleSets), len(questions))
	}
	for _, each := range p.actions {
		if err := within("owner of an action", each.owner, int(LiftedByNone)+1); err != nil {
			return err
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
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// within says whether a place lies in a list of some length.
func within(what string, place int32, length int) error {
	if place < 0 || int(place) >= length {
		return fmt.Errorf("found %s %d, wanted less than %d", what, place, length)
	}
	return nil
}

func (s *ruleSet) checkFacts() error {
	for number := range s.facts {
		each := &s.facts[number]
		if each.kind < factField || each.kind > factDeclared {
			return fmt.Errorf("found kind %d of fact %.80q, wanted 1 to %d", each.kind, each.name, factDeclared)
		}
		if each.subject < subjectServer || each.subject > subjectEnable {
			return fmt.Errorf("found subject %d of fact %.80q, wanted 1 to %d", each.subject, each.name, subjectEnable)
		}
		if err := each.check(); err != nil {
			return fmt.Errorf("fact %.80q: %w", each.name, err)
		}
	}
	return nil
}

func (t *fact) check() error {
	if t.kind != factName || len(t.values) > 0 {
		if err := within("default", t.defaultValue, len(t.values)); err != nil {
			return err
		}
	}
	if err := within("who changes it", t.changedBy, int(LiftedByNone)+1); err != nil {
		return err
	}
	if t.kind == factName && len(t.classes) != len(t.values) {
		return fmt.Errorf("found %d classes of names, wanted %d", len(t.classes), len(t.values))
	}
	for _, class := range t.classes {
		for place, group := range class {
			if err := within("group of patterns", group, len(t.groups)); err != nil {
				return err
			}
			if place > 0 && group <= class[place-1] {
				return fmt.Errorf("found group of patterns %d after %d, wanted ascending places", group, class[place-1])
			}
		}
	}
	return nil
}

func (s *ruleSet) checkStatuses() error {
	for _, each := range s.statuses {
		if each.liftedBy < 1 || each.liftedBy > int32(LiftedByNone) || each.retry < 1 || each.retry > int32(RetryNow) {
			return fmt.Errorf("status %.80q: found lifted by %d and retry %d, wanted 1 to %d and 1 to %d",
				each.name, each.liftedBy, each.retry, LiftedByNone, RetryNow)
		}
	}
	if err := within("undetermined status", s.undetermined, len(s.statuses)); err != nil {
		return err
	}
	if s.open != absent {
		if err := within("open status", s.open, len(s.statuses)); err != nil {
			return err
		}
	}
	for _, each := range s.words {
		if err := within("status of words", each.status, len(s.statuses)); err != nil {
			return err
		}
		if len(each.texts) != len(s.textNames) {
			return fmt.Errorf("found %d texts of a status, wanted %d", len(each.texts), len(s.textNames))
		}
	}
	return nil
}

// A tree of parts keeps every evaluation linear: a part that belonged to several could be visited for each of them.
func (s *ruleSet) checkParts() error {
	owned := make([]bool, len(s.parts))
	for number := range s.parts {
		each := &s.parts[number]
		if err := s.checkPart(each, int32(number), owned); err != nil {
			return fmt.Errorf("part %d of the conditions: %w", number, err)
		}
	}
	for _, each := range s.rules {
		if each.condition == absent {
			continue
		}
		if err := within("condition", each.condition, len(s.parts)); err != nil {
			return err
		}
		if owned[each.condition] {
			return fmt.Errorf("found part %d of the conditions twice", each.condition)
		}
		owned[each.condition] = true
	}
	return nil
}

func (s *ruleSet) checkPart(p *part, number int32, owned []bool) error {
	switch {
	case p.kind == conditionFactIs:
		if err := within("fact", p.fact, len(s.facts)); err != nil {
			return err
		}
		for _, reading := range p.readings {
			if err := within("reading", reading, len(s.facts[p.fact].values)); err != nil {
				return err
			}
		}
		return nil
	case p.kind < conditionFactIs || p.kind > conditionNot:
		return fmt.Errorf("found kind %d, wanted 1 to %d", p.kind, conditionNot)
	case len(p.parts) == 0, p.kind == conditionNot && len(p.parts) != 1:
		return fmt.Errorf("found %d parts of kind %d", len(p.parts), p.kind)
	}
	for _, inner := range p.parts {
		if inner >= number || owned[inner] {
			return fmt.Errorf("found part %d, wanted one before it that belongs to no other", inner)
		}
		owned[inner] = true
	}
	return nil
}

func (s *ruleSet) checkRules() error {
	if len(s.rules) == 0 || s.rules[len(s.rules)-1].condition != absent {
		return fmt.Errorf("found no last rule without a condition")
	}
	for _, each := range s.rules {
		if err := within("status of a rule", each.status, len(s.statuses)); err != nil {
			return err
		}
		if len(each.words) != 0 && len(each.words) != len(s.textNames) {
			return fmt.Errorf("found %d texts of rule %.80q, wanted %d", len(each.words), each.id, len(s.textNames))
		}
	}
	return nil
}
