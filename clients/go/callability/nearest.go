package callability

import (
	"slices"
)

// mostLooks is how many children of nodes are looked at, at most. Every implementation counts them alike.
const mostLooks = 50_000

// A reached is a node or a result of the diagram, from where it was reached, and by which changes.
type reached struct {
	// cost are the facts that were changed so far.
	cost    effort
	node    int32
	before  *reached
	changes []factReading
}

type factReading struct{ fact, reading int32 }

// An axisMove is what changes lead to a point of an axis.
type axisMove struct {
	point   int32
	changes []factReading
}

// A changeSearch looks for the fewest changes that open the status: by the diagram, which covers every combination.
type changeSearch struct {
	*explained
	// reading says that an unknown fact counts as one that may turn out to have any of its values.
	reading bool
	waiting [][]*reached
	known   map[int32]*reached
	best    *reached
}

// fewestChanges are the fewest changes that open the status, those of the first facts first; nil if no changes do.
// They may be there or not if it is not sure.
func (e *explained) fewestChanges(reading bool) (changes map[int32]int32, sure bool) {
	s := &changeSearch{
		explained: e, reading: reading, waiting: make([][]*reached, len(e.set.axes)), known: map[int32]*reached{},
	}
	s.arrive(&reached{node: e.policy.diagram.root()})
	looks := 0
	// A node is reached from axes before its own alone, so that its cost is final.
	for place := range s.waiting {
		if len(s.waiting[place]) == 0 {
			continue
		}
		moves := s.moves(place)
		if looks += len(s.waiting[place]) * len(moves); looks > mostLooks {
			return nil, false
		}
		for _, from := range s.waiting[place] {
			for _, each := range moves {
				s.arrive(from.by(each, e.policy.diagram.nodes[from.node+1+each.point]))
			}
		}
	}
	if s.best == nil {
		return nil, true
	}
	changes = map[int32]int32{}
	for at := s.best; at != nil; at = at.before {
		for _, change := range at.changes {
			changes[change.fact] = change.reading
		}
	}
	return changes, true
}

func (r *reached) by(m axisMove, node int32) *reached {
	next := &reached{cost: r.cost, node: node, before: r, changes: m.changes}
	if len(m.changes) > 0 {
		next.cost = slices.Clone(r.cost)
		for _, change := range m.changes {
			next.cost = append(next.cost, change.fact)
		}
		slices.Sort(next.cost)
	}
	return next
}

func (s *changeSearch) arrive(at *reached) {
	if at.node < 0 {
		verdict := &s.set.verdicts[^at.node]
		opens := !verdict.undetermined && s.set.rules[verdict.rule].status == s.set.open
		if opens && (s.best == nil || at.cost.compare(s.best.cost) < 0) {
			s.best = at
		}
		return
	}
	known := s.known[at.node]
	if known == nil {
		s.known[at.node] = at
		axis := s.policy.diagram.nodes[at.node]
		s.waiting[axis] = append(s.waiting[axis], at)
	} else if at.cost.compare(known.cost) < 0 {
		*known = *at
	}
}

// moves are the states of an axis that can be reached, each at its first point.
func (s *changeSearch) moves(place int) []axisMove {
	axis := s.set.axes[place]
	var found []axisMove
	first := map[string]int{}
	for point := range axis.points() {
		key := way{0: axis.at(point)}.key()
		if _, seen := first[key]; !seen {
			first[key] = point
		}
	}
	for point := range axis.points() {
		state := axis.at(point)
		if first[way{0: state}.key()] != point {
			continue
		}
		each := axisMove{point: int32(point)}
		_, possible := first[way{0: s.readNow(axis.facts, state)}.key()]
		for number, fact := range axis.facts {
			if state[number] != s.readings[fact] {
				possible = possible && s.canBe(fact, state[number])
				each.changes = append(each.changes, factReading{fact, state[number]})
			}
		}
		if possible {
			found = append(found, each)
		}
	}
	return found
}

// readNow is a state before any change: an unknown fact has its value already, one that can occur with what is known.
func (s *changeSearch) readNow(facts, state []int32) []int32 {
	before := slices.Clone(state)
	for number, fact := range facts {
		if s.readings[fact] < int32(len(s.set.facts[fact].values)) {
			before[number] = s.readings[fact]
		}
	}
	return before
}

// canBe reports whether a fact can get another reading than it has.
func (s *changeSearch) canBe(place, reading int32) bool {
	fact := &s.set.facts[place]
	unknown := int32(len(fact.values))
	if s.readings[place] >= unknown || reading >= unknown {
		return s.reading && reading < unknown
	}
	return fact.changedBy != 0 && (fact.anyValue || reading == fact.defaultValue)
}
