package callability

import (
	"maps"
	"math"
	"slices"

	"github.com/callability/callability/clients/go/internal/enum"
)

// A PathEnd says what a path leads to. Its numbers are those of the contract.
type PathEnd uint8

// What is reached after the steps of a path.
const (
	// PathEndUnspecified says nothing: the diagram is too large to say whether there is a path.
	PathEndUnspecified PathEnd = iota
	// PathEndCallable: the tool is callable.
	PathEndCallable
	// PathEndPolicyChange: only a change of the policy helps.
	PathEndPolicyChange
	// PathEndFindOut: a fact has to be found out.
	PathEndFindOut
)

// PathEndLater is any end that only a later version knows.
const PathEndLater PathEnd = math.MaxUint8

var pathEndNames = [...]string{"unspecified", "callable", "policy_change", "find_out"}

const laterName = "later"

// String is the word of the end; "later" for [PathEndLater].
func (e PathEnd) String() string {
	if e == PathEndLater {
		return laterName
	}
	return enum.Name(e, pathEndNames[:])
}

// MarshalText returns the word that String returns.
func (e PathEnd) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText reads a word that String returns. A number of a later version is an error.
func (e *PathEnd) UnmarshalText(text []byte) error {
	if string(text) == laterName {
		*e = PathEndLater
		return nil
	}
	return enum.Parse(e, text, pathEndNames[:])
}

// A Path is what would have to change, in order, for a tool to become callable.
type Path struct {
	Steps []Step
	End   PathEnd
	// FindOut are the facts to find out before more can be said.
	FindOut []string
}

// A Step is the changes that keep one rule from deciding. All of them are needed.
type Step struct {
	Rule    string
	Status  Status
	Changes []Change
	rule    int32
}

// A Change is one fact to change, from its current value to any of the wanted ones.
type Change struct {
	Fact, Current string
	Wanted        []string
	// ChangedBy is LiftedByNone for `caller.refuses`, which is the caller's own.
	ChangedBy LiftedBy
	// Action is the action that changes it, and Phrase its neutral phrase; empty if there is none.
	Action, Phrase string
	fact           int32
	current        int32
	wanted         valueSet
	possible       valueSet
}

func (p Path) clone() Path {
	p.Steps, p.FindOut = slices.Clone(p.Steps), slices.Clone(p.FindOut)
	for place := range p.Steps {
		step := &p.Steps[place]
		step.Changes = slices.Clone(step.Changes)
		for number := range step.Changes {
			step.Changes[number].Wanted = slices.Clone(step.Changes[number].Wanted)
		}
	}
	return p
}

// path changes, for the rule that decides, the smallest set of facts that makes it false, until the status is open.
// If that gets stuck, or at unknown facts of which no values help, the diagram says which changes open the status, or that
// none do: only then is it the policy.
func (e *explained) path() Path {
	if e.set.open == absent {
		return Path{}
	}
	search := &pathSearch{explained: e, left: map[int32]valueSet{}}
	for {
		found, ok := search.path()
		if !ok {
			continue
		}
		if found.End != PathEndCallable && !(found.End == PathEndFindOut && search.leadsOn(&found)) {
			found = e.byFewestChanges()
		}
		search.addEveryValue(&found)
		search.write(&found)
		return found
	}
}

// leadsOn reports whether, after the steps of a path, some values of the unknown facts help.
func (e *explained) leadsOn(path *Path) bool {
	after := *e
	after.readings = slices.Clone(e.readings)
	for _, step := range path.Steps {
		for _, change := range step.Changes {
			after.readings[change.fact] = change.wanted[0]
		}
	}
	search := &changeSearch{explained: &after, reading: true}
	return e.policy.canOpen(func(axis int32) []int32 {
		var points []int32
		for _, each := range search.moves(int(axis)) {
			points = append(points, each.point)
		}
		return points
	})
}

// A pathSearch looks for a path. A label is changed once: if that value does not do for a later rule, the search begins
// again without it, so that it ends.
type pathSearch struct {
	*explained
	left map[int32]valueSet
}

func (s *pathSearch) path() (Path, bool) {
	now := slices.Clone(s.readings)
	var steps []Step
	for {
		number, undetermined := s.set.decided(now)
		rule := &s.set.rules[number]
		if undetermined {
			return Path{Steps: steps, End: PathEndFindOut, FindOut: s.policy.unreadAt(s.set, now)}, true
		}
		if rule.status == s.set.open {
			return Path{Steps: steps, End: PathEndCallable}, true
		}
		out := s.easiest(rule, now, s.values(rule, now))
		if out == nil {
			end := Path{Steps: steps, End: PathEndPolicyChange, FindOut: s.inTheWay(rule, now)}
			if len(end.FindOut) > 0 {
				end.End = PathEndFindOut
			}
			return end, true
		}
		if s.ruleOut(out, now) {
			return Path{}, false
		}
		step := Step{Rule: rule.id, Status: statusOf(s.set.statuses[rule.status].number), rule: number}
		for _, fact := range slices.Sorted(maps.Keys(out)) {
			if !out[fact].has(now[fact]) {
				step.Changes = append(step.Changes, Change{fact: fact, current: now[fact], wanted: out[fact], possible: out[fact]})
			}
		}
		for _, change := range step.Changes {
			now[change.fact] = change.wanted[0]
		}
		steps = append(steps, step)
	}
}

// ruleOut takes away values of facts that would be changed a second time, and reports whether there are any.
func (s *pathSearch) ruleOut(out way, now []int32) bool {
	again := false
	for fact, wanted := range out {
		if !wanted.has(now[fact]) && now[fact] != s.readings[fact] {
			again = true
			s.left[fact] = slices.DeleteFunc(slices.Clone(wanted), func(value int32) bool { return value == s.readings[fact] })
		}
	}
	return again
}

func (s *pathSearch) easiest(rule *rule, now []int32, values map[int32]valueSet) way {
	changed := func(out way) effort {
		var found effort
		for fact, wanted := range out {
			if !wanted.has(now[fact]) && now[fact] == s.readings[fact] {
				found = append(found, fact)
			}
		}
		slices.Sort(found)
		return found
	}
	return falsifying{s.set, values, changed}.easiest(rule.condition)
}

// values are those that each fact of a rule can have: its own, and those that somebody can give it.
func (s *pathSearch) values(rule *rule, now []int32) map[int32]valueSet {
	found := map[int32]valueSet{}
	for _, fact := range s.set.factsRead(rule.condition) {
		found[fact] = s.valuesOf(fact, now[fact])
	}
	return found
}

func (s *pathSearch) valuesOf(place, value int32) valueSet {
	fact := &s.set.facts[place]
	switch {
	case int(value) >= len(fact.values):
		return nil
	case fact.changedBy == 0:
		return valueSet{value}
	case !fact.anyValue:
		return slices.Compact(slices.Sorted(slices.Values(valueSet{value, fact.defaultValue})))
	}
	found, ruledOut := s.left[place]
	if !ruledOut {
		for other := range int32(len(fact.values)) {
			if other != s.readings[place] {
				found = append(found, other)
			}
		}
	}
	if value == s.readings[place] && !found.has(value) {
		found = slices.Sorted(slices.Values(append(slices.Clone(found), value)))
	}
	return found
}

// inTheWay are the unknown facts whose values, known and changed, would make a rule false.
func (s *pathSearch) inTheWay(rule *rule, now []int32) []string {
	values := s.values(rule, now)
	for _, place := range s.set.factsRead(rule.condition) {
		fact := &s.set.facts[place]
		if int(now[place]) < len(fact.values) || fact.changedBy == 0 {
			continue
		}
		values[place] = valueSet{fact.defaultValue}
		for other := int32(0); fact.anyValue && int(other) < len(fact.values); other++ {
			if other == 0 {
				values[place] = nil
			}
			values[place] = append(values[place], other)
		}
	}
	out := s.easiest(rule, now, values)
	var found []string
	for _, place := range slices.Sorted(maps.Keys(out)) {
		if fact := &s.set.facts[place]; int(now[place]) >= len(fact.values) {
			found = append(found, fact.name)
		}
	}
	return found
}

// addEveryValue gives the labels of a path every value with which it takes the same course to the same end.
func (s *pathSearch) addEveryValue(path *Path) {
	wanted := map[int32]int32{}
	for _, step := range path.Steps {
		for _, change := range step.Changes {
			wanted[change.fact] = change.wanted[0]
		}
	}
	end := s.endOf(path.Steps, wanted)
	for s.collect(path, wanted, end) {
	}
}

// An ending is what decides after the steps of a path; the rule is absent if another rule decides before one of them.
type ending struct {
	rule         int32
	undetermined bool
	open         bool
}

// collect finds the values that lead to an end, and reports whether it has taken an earlier value than the wanted one.
func (s *pathSearch) collect(path *Path, wanted map[int32]int32, end ending) bool {
	for number := range path.Steps {
		changes := path.Steps[number].Changes
		for place := range changes {
			change := &changes[place]
			fact := &s.set.facts[change.fact]
			candidates := change.possible
			if fact.anyValue {
				candidates = nil
				for value := range int32(len(fact.values)) {
					candidates = append(candidates, value)
				}
			}
			first := wanted[change.fact]
			var fitting valueSet
			for _, value := range candidates {
				wanted[change.fact] = value
				if value != change.current && s.endOf(path.Steps, wanted) == end {
					fitting = append(fitting, value)
				}
			}
			wanted[change.fact] = first
			change.wanted = fitting
		}
	}
	for _, step := range path.Steps {
		for _, change := range step.Changes {
			if len(change.wanted) > 0 && change.wanted[0] != wanted[change.fact] {
				wanted[change.fact] = change.wanted[0]
				return true
			}
		}
	}
	return false
}

func (s *pathSearch) endOf(steps []Step, wanted map[int32]int32) ending {
	now := slices.Clone(s.readings)
	for _, step := range steps {
		number, undetermined := s.set.decided(now)
		if undetermined || number != step.rule {
			return ending{rule: absent}
		}
		for _, change := range step.Changes {
			now[change.fact] = wanted[change.fact]
		}
	}
	number, undetermined := s.set.decided(now)
	if !undetermined && s.set.rules[number].status == s.set.open {
		return ending{open: true}
	}
	return ending{rule: number, undetermined: undetermined}
}

// write puts the changes of a path into words, and keeps nothing else of them: as a service sends them.
func (s *pathSearch) write(path *Path) {
	for number := range path.Steps {
		step := &path.Steps[number]
		step.rule = 0
		for place := range step.Changes {
			step.Changes[place] = s.written(&step.Changes[place])
		}
	}
}

func (s *pathSearch) written(change *Change) Change {
	fact := &s.set.facts[change.fact]
	found := Change{
		Fact: fact.name, Current: fact.text(change.current), ChangedBy: LiftedBy(fact.changedBy), Action: fact.action,
	}
	if name, given := s.names[change.fact]; given {
		found.Current = name
	}
	for _, value := range change.wanted {
		found.Wanted = append(found.Wanted, fact.text(value))
	}
	for _, action := range s.policy.payload.actions {
		if action.name == fact.action {
			found.Phrase = action.phrase
		}
	}
	return found
}
