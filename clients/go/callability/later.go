package callability

import (
	"encoding/binary"
	"slices"
	"sync"
)

// maxLater is how many combinations of facts are kept with whether a later call can succeed.
const maxLater = 4_096

// laterTries keeps, by the points of undetermined verdicts and the facts that stay unknown, whether a later call can succeed.
type laterTries struct {
	mutex sync.Mutex
	kept  map[string]bool
}

// opens reports whether the tool of an undetermined verdict can become callable without a change of a known fact.
func (l *laterTries) opens(v Verdict) bool {
	key := v.laterKey()
	l.mutex.Lock()
	found, ok := l.kept[key]
	l.mutex.Unlock()
	if ok {
		return found
	}
	found = v.policy.canOpen(v.pointsLater)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if len(l.kept) >= maxLater {
		clear(l.kept)
	}
	l.kept[key] = found
	return found
}

func (v Verdict) laterKey() string {
	var key []byte
	for axis := range v.policy.axes {
		key = binary.AppendUvarint(key, uint64(v.pointAt(int32(axis))))
	}
	for _, stays := range [][]int32{v.tool.stays, v.agent.stays} {
		for _, place := range stays {
			key = binary.AppendUvarint(key, uint64(place))
		}
	}
	return string(key)
}

func (v Verdict) pointAt(axis int32) int32 {
	if point := v.tool.points[axis]; point >= 0 {
		return point
	}
	return v.agent.points[axis]
}

// pointsLater are the points of an axis that its facts can have later: those that are unknown may get any values that can
// occur with the others, unless they stay unknown.
func (v Verdict) pointsLater(axis int32) []int32 {
	of := v.policy.tools().axes[axis]
	now := of.at(int(v.pointAt(axis)))
	var found []int32
	for point := range of.points() {
		state, possible := of.at(point), true
		for number, place := range of.facts {
			if state[number] != now[number] {
				unknown := int32(len(v.policy.tools().facts[place].values))
				possible = possible && now[number] == unknown && !v.stays(place)
			}
		}
		if possible {
			found = append(found, int32(point))
		}
	}
	return found
}

func (v Verdict) stays(place int32) bool {
	return slices.Contains(v.tool.stays, place) || slices.Contains(v.agent.stays, place)
}

// canOpen reports whether the diagram leads to a verdict that opens the status by some of the points of each axis.
func (p *Policy) canOpen(points func(axis int32) []int32) bool {
	set := p.tools()
	onwards := make([][]int32, len(set.axes))
	seen := map[int32]bool{}
	waiting := []int32{p.diagram.root()}
	for len(waiting) > 0 {
		node := waiting[len(waiting)-1]
		waiting = waiting[:len(waiting)-1]
		if node < 0 {
			verdict := &set.verdicts[^node]
			if !verdict.undetermined && set.rules[verdict.rule].status == set.open {
				return true
			}
			continue
		}
		if seen[node] {
			continue
		}
		seen[node] = true
		axis := p.diagram.nodes[node]
		if onwards[axis] == nil {
			onwards[axis] = points(axis)
		}
		for _, point := range onwards[axis] {
			waiting = append(waiting, p.diagram.nodes[node+1+point])
		}
	}
	return false
}
