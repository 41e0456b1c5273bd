package callability

import (
	"maps"
	"slices"
)

// byFewestChanges is the path of the fewest changes that open the status, what to find out for it, or that there is none.
// It is the zero Path if the diagram is too large to say.
func (e *explained) byFewestChanges() Path {
	wanted, sure := e.fewestChanges(false)
	if wanted != nil {
		if steps := e.steps(wanted); steps != nil {
			return Path{Steps: steps, End: PathEndCallable}
		}
		return Path{}
	}
	if sure {
		wanted, sure = e.fewestChanges(true)
	}
	if !sure {
		return Path{}
	}
	found := Path{End: PathEndPolicyChange}
	for _, place := range slices.Sorted(maps.Keys(wanted)) {
		if fact := &e.set.facts[place]; int(e.readings[place]) >= len(fact.values) {
			found.End, found.FindOut = PathEndFindOut, append(found.FindOut, fact.name)
		}
	}
	return found
}

// steps are changes as steps, one for each rule in the way; nil if they do not open the status.
func (e *explained) steps(wanted map[int32]int32) []Step {
	now := slices.Clone(e.readings)
	left := slices.Sorted(maps.Keys(wanted))
	var steps []Step
	for len(left) > 0 {
		number, _ := e.set.decided(now)
		past := passing{e.set, number, now, wanted}
		needed := past.needed(left)
		if len(needed) == 0 {
			return nil
		}
		rule := &e.set.rules[number]
		step := Step{Rule: rule.id, Status: statusOf(e.set.statuses[rule.status].number), rule: number}
		for _, fact := range needed {
			only := valueSet{wanted[fact]}
			step.Changes = append(step.Changes, Change{fact: fact, current: now[fact], wanted: only, possible: only})
		}
		steps = append(steps, step)
		now = past.after(needed)
		left = slices.DeleteFunc(left, func(fact int32) bool { return slices.Contains(needed, fact) })
	}
	return steps
}

// A passing is the way past one rule by some of the changes that are wanted.
type passing struct {
	set    *ruleSet
	rule   int32
	now    []int32
	wanted map[int32]int32
}

// needed are those of the changes that are left that take the decision past the rule, in order, and none to spare.
func (p *passing) needed(left []int32) []int32 {
	read := p.set.factsRead(p.set.rules[p.rule].condition)
	needed := slices.DeleteFunc(slices.Clone(left), func(fact int32) bool { return !slices.Contains(read, fact) })
	if !p.movesOn(needed) {
		needed = slices.Clone(left)
	}
	if !p.movesOn(needed) {
		return nil
	}
	for before := len(needed) + 1; len(needed) < before; {
		before = len(needed)
		for _, fact := range slices.Backward(slices.Clone(needed)) {
			others := slices.DeleteFunc(slices.Clone(needed), func(other int32) bool { return other == fact })
			if p.movesOn(others) {
				needed = others
			}
		}
	}
	return needed
}

// movesOn reports whether, after some changes, a later rule decides, or one that opens the status.
func (p *passing) movesOn(changed []int32) bool {
	number, undetermined := p.set.decided(p.after(changed))
	return !undetermined && (number > p.rule || p.set.rules[number].status == p.set.open)
}

func (p *passing) after(changed []int32) []int32 {
	after := slices.Clone(p.now)
	for _, fact := range changed {
		after[fact] = p.wanted[fact]
	}
	return after
}
