package callability

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// maxWays are kept of a part of a condition: those of the least effort.
const maxWays = 64

// A valueSet is a set of the values of a fact, by their places, ascending.
type valueSet []int32

func (v valueSet) has(value int32) bool { return slices.Contains(v, value) }

// A way is, for some facts, values of which any will do to give a condition a truth.
type way map[int32]valueSet

// key is equal for equal ways.
func (w way) key() string {
	var key strings.Builder
	for _, fact := range slices.Sorted(maps.Keys(w)) {
		for _, number := range append([]int32{-1, fact, -2}, w[fact]...) {
			key.WriteRune(rune(number + 3))
			key.WriteByte(',')
		}
	}
	return key.String()
}

// An effort is how many facts a way changes, and which: fewer are better, and so are the first.
type effort []int32

func (e effort) compare(other effort) int {
	return cmp.Or(cmp.Compare(len(e), len(other)), slices.Compare(e, other))
}

// falsifying finds ways to make a condition false by values that its facts can have; none: there are no such values.
type falsifying struct {
	set    *ruleSet
	values map[int32]valueSet
	effort func(way) effort
}

// easiest returns the way of the least effort; nil if there is none.
func (f falsifying) easiest(condition int32) way {
	if condition == absent {
		return nil
	}
	ways := f.ways(condition, false)
	if len(ways) == 0 {
		return nil
	}
	return slices.MinFunc(ways, func(one, other way) int { return f.effort(one).compare(f.effort(other)) })
}

// ways returns ways to give a part the truth that is wanted. Parts nest at most 128 levels deep.
func (f falsifying) ways(number int32, wanted bool) []way {
	part := &f.set.parts[number]
	switch part.kind {
	case conditionFactIs:
		var fitting valueSet
		for _, value := range f.values[part.fact] {
			if slices.Contains(part.readings, value) == wanted {
				fitting = append(fitting, value)
			}
		}
		if len(fitting) == 0 {
			return nil
		}
		return []way{{part.fact: fitting}}
	case conditionNot:
		return f.ways(part.parts[0], !wanted)
	}
	if (part.kind == conditionAll) != wanted {
		var every []way
		for _, inner := range part.parts {
			every = append(every, f.ways(inner, wanted)...)
		}
		return f.best(every)
	}
	var joined []way
	for place, inner := range part.parts {
		if ways := f.ways(inner, wanted); place == 0 {
			joined = ways
		} else {
			joined = f.best(both(joined, ways))
		}
	}
	return joined
}

// both returns ways that are one of each list at once.
func both(one, other []way) []way {
	var found []way
	for _, left := range one {
		for _, right := range other {
			if joined := common(left, right); joined != nil {
				found = append(found, joined)
			}
		}
	}
	return found
}

func common(one, other way) way {
	joined := maps.Clone(one)
	for fact, values := range other {
		mine, shared := joined[fact]
		if !shared {
			joined[fact] = values
			continue
		}
		both := slices.DeleteFunc(slices.Clone(mine), func(value int32) bool { return !values.has(value) })
		if len(both) == 0 {
			return nil
		}
		joined[fact] = both
	}
	return joined
}

func (f falsifying) best(ways []way) []way {
	seen := map[string]bool{}
	var different []way
	for _, each := range ways {
		if key := each.key(); !seen[key] {
			seen[key] = true
			different = append(different, each)
		}
	}
	if len(different) > maxWays {
		slices.SortStableFunc(different, func(one, other way) int { return f.effort(one).compare(f.effort(other)) })
		different = different[:maxWays]
	}
	return different
}
