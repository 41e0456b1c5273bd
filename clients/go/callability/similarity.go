package callability

import (
	"cmp"
	"slices"
	"strings"

	"github.com/callability/callability/clients/go/internal/wording"
)

const (
	maxCompared = 256
	maxNear     = 3
)

// nearest returns the three names that are most similar to one, of those with a normalised indel similarity of 0.6 or more.
func nearest(name string, names []string) []string {
	type near struct {
		name         string
		common, size int
	}
	wanted := []rune(wording.Cut(name, maxCompared))
	var found []near
	sorted := slices.Compact(slices.Sorted(slices.Values(names)))
	for _, each := range sorted {
		other := []rune(each)
		// The longest common subsequence is at most the shorter of the two.
		size := len(wanted) + len(other)
		if 10*min(len(wanted), len(other)) < 3*size {
			continue
		}
		if common := longestCommon(wanted, other); 10*common >= 3*size {
			found = append(found, near{each, common, size})
		}
	}
	slices.SortStableFunc(found, func(one, other near) int {
		return cmp.Or(cmp.Compare(other.common*one.size, one.common*other.size), strings.Compare(one.name, other.name))
	})
	var most []string
	for _, each := range found[:min(len(found), maxNear)] {
		most = append(most, each.name)
	}
	return most
}

// longestCommon is the length of the longest common subsequence of two texts.
func longestCommon(one, other []rune) int {
	row := make([]int, len(other)+1)
	for _, character := range one {
		diagonal := 0
		for place, each := range other {
			above := row[place+1]
			if each == character {
				row[place+1] = diagonal + 1
			} else {
				row[place+1] = max(above, row[place])
			}
			diagonal = above
		}
	}
	return row[len(other)]
}
