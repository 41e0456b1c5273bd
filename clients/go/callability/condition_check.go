package callability

import "fmt"

// maxDepth is how deep the parts of a condition may nest.
const maxDepth = 128

// checkParts reports whether the parts are trees: each belongs to one part, rule or law, and to none that comes before it.
func (s *ruleSet) checkParts() error {
	owned, depths := make([]bool, len(s.parts)), make([]int, len(s.parts))
	for number := range s.parts {
		if err := s.checkPart(int32(number), owned, depths); err != nil {
			return fmt.Errorf("part %d of the conditions: %w", number, err)
		}
	}
	conditions := make([]int32, 0, len(s.rules)+len(s.laws))
	for _, each := range s.rules {
		conditions = append(conditions, each.condition)
	}
	for _, each := range s.laws {
		conditions = append(conditions, each.condition)
	}
	for _, condition := range conditions {
		if condition == absent {
			continue
		}
		if err := own(condition, len(s.parts), owned); err != nil {
			return err
		}
	}
	for number, taken := range owned {
		if !taken {
			return fmt.Errorf("part %d of the conditions belongs to nothing", number)
		}
	}
	return nil
}

func own(part int32, before int, owned []bool) error {
	if err := within("part of a condition", part, before); err != nil {
		return err
	}
	if owned[part] {
		return fmt.Errorf("found part %d of the conditions twice", part)
	}
	owned[part] = true
	return nil
}

func (s *ruleSet) checkPart(number int32, owned []bool, depths []int) error {
	p := &s.parts[number]
	switch {
	case p.kind == conditionFactIs:
		depths[number] = 1
		return s.checkFactIs(p)
	case p.kind < conditionFactIs || p.kind > conditionNot:
		return fmt.Errorf("found kind %d, wanted 1 to %d", p.kind, conditionNot)
	case p.kind == conditionNot && len(p.parts) != 1:
		return fmt.Errorf("found %d parts of a negation, wanted 1", len(p.parts))
	}
	for _, inner := range p.parts {
		if err := own(inner, int(number), owned); err != nil {
			return err
		}
		depths[number] = max(depths[number], depths[inner])
	}
	if depths[number]++; depths[number] > maxDepth {
		return fmt.Errorf("found more than %d levels", maxDepth)
	}
	return nil
}

func (s *ruleSet) checkFactIs(p *part) error {
	if err := within("fact", p.fact, len(s.facts)); err != nil {
		return err
	}
	if len(p.parts) > 0 {
		return fmt.Errorf("found parts of a condition on a fact")
	}
	for place, reading := range p.readings {
		if err := within("reading", reading, len(s.facts[p.fact].values)); err != nil {
			return err
		}
		if place > 0 && reading <= p.readings[place-1] {
			return fmt.Errorf("found reading %d after %d, wanted ascending readings", reading, p.readings[place-1])
		}
	}
	return nil
}
