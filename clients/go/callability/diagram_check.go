package callability

import (
	"fmt"
	"slices"
)

func (s *ruleSet) checkAxes() error {
	tested := map[int32]bool{}
	for _, each := range s.axes {
		if len(each.facts) == 0 || len(each.readings) == 0 || len(each.readings)%len(each.facts) != 0 {
			return fmt.Errorf("found an axis of %d facts with %d readings", len(each.facts), len(each.readings))
		}
		for _, place := range each.facts {
			if err := within("fact of an axis", place, len(s.facts)); err != nil {
				return err
			}
			if tested[place] {
				return fmt.Errorf("found fact %d on two axes", place)
			}
			if len(s.facts[place].values) == 0 {
				return fmt.Errorf("found fact %d without values on an axis", place)
			}
			tested[place] = true
		}
		if err := s.checkAxis(each); err != nil {
			return err
		}
	}
	listed := map[int32]bool{}
	for _, place := range s.listedFacts {
		if !tested[place] || listed[place] {
			return fmt.Errorf("found the listed fact %d, wanted each fact of an axis once", place)
		}
		listed[place] = true
	}
	if len(listed) != len(tested) {
		return fmt.Errorf("found %d listed facts, wanted %d", len(listed), len(tested))
	}
	return nil
}

func (s *ruleSet) checkAxis(a axis) error {
	ofAgent := 0
	for _, place := range a.facts {
		if s.facts[place].subject == subjectAgent {
			ofAgent++
		}
	}
	if ofAgent != 0 && ofAgent != len(a.facts) {
		return fmt.Errorf("found an axis of facts of the agent and of others")
	}
	for number, reading := range a.readings {
		fact := &s.facts[a.facts[number%len(a.facts)]]
		if err := within("reading of an axis", reading, fact.readings()); err != nil {
			return err
		}
	}
	if len(a.facts) > 1 {
		return nil
	}
	different := len(slices.Compact(slices.Sorted(slices.Values(a.readings))))
	if wanted := s.facts[a.facts[0]].readings(); different != wanted {
		return fmt.Errorf("found points for %d readings of fact %d, wanted %d", different, a.facts[0], wanted)
	}
	return nil
}

// readings is how many readings a fact has: its values, and that it is unknown.
func (f *fact) readings() int {
	if f.asserted {
		return len(f.values)
	}
	return len(f.values) + 1
}

func (s *ruleSet) checkVerdicts() error {
	if len(s.verdicts) == 0 {
		return fmt.Errorf("found no verdicts")
	}
	for _, each := range s.verdicts {
		if err := within("status of a verdict", each.status, len(s.statuses)); err != nil {
			return err
		}
		if err := within("rule of a verdict", each.rule, len(s.rules)); err != nil {
			return err
		}
		wanted := s.rules[each.rule].status
		if each.undetermined {
			wanted = s.undetermined
		}
		if each.status != wanted {
			return fmt.Errorf("found status %d in a verdict of rule %.80q, wanted %d", each.status, s.rules[each.rule].id, wanted)
		}
	}
	return nil
}

func (s *ruleSet) checkDiagrams() error {
	if err := s.diagram.check(s.axes, len(s.verdicts)); err != nil {
		return fmt.Errorf("diagram: %w", err)
	}
	if err := s.unread.check(s.axes, 2); err != nil {
		return fmt.Errorf("diagram of unread facts: %w", err)
	}
	last := unreadStart{rule: -1}
	for _, each := range s.unreadStarts {
		if each.rule < last.rule || each.rule == last.rule && each.fact <= last.fact {
			return fmt.Errorf("found the unread facts of rule %d out of order", each.rule)
		}
		last = each
		if err := within("rule", each.rule, len(s.rules)); err != nil {
			return err
		}
		if err := within("fact", each.fact, len(s.facts)); err != nil {
			return err
		}
		if err := within("start", each.start, 2+len(s.unread.places)); err != nil {
			return err
		}
	}
	return nil
}

// A child is lower than its node, and its axis later, so that every walk ends.
func (d *diagram) check(axes []axis, results int) error {
	next := 0
	for number, place := range d.places {
		if err := within("axis", place, len(axes)); err != nil {
			return err
		}
		points := axes[place].points()
		if len(d.children)-next < points {
			return fmt.Errorf("found %d children of node %d, wanted %d", len(d.children)-next, number, points)
		}
		for _, child := range d.children[next : next+points] {
			if int(child) >= results+number {
				return fmt.Errorf("found child %d of node %d, wanted less than %d", child, number, results+number)
			}
			if int(child) >= results && d.places[int(child)-results] <= place {
				return fmt.Errorf("found a child of node %d that does not test a later axis", number)
			}
		}
		next += points
	}
	if next != len(d.children) {
		return fmt.Errorf("found %d children, wanted %d", len(d.children), next)
	}
	return nil
}

func (a axis) points() int { return len(a.readings) / len(a.facts) }

// at returns the readings of a point.
func (a axis) at(point int) []int32 { return a.readings[point*len(a.facts) : (point+1)*len(a.facts)] }
