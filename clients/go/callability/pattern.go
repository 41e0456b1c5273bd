package callability

import (
	"slices"
	"unicode/utf8"
)

// matches reports whether a pattern matches the whole of a name: `*` any characters, `?` any one, case-sensitively.
// The time that it takes grows with the product of both lengths at most.
func matches(pattern, name string) bool {
	at, in := 0, 0
	star, resume := -1, 0
	for in < len(name) {
		if at < len(pattern) && pattern[at] == '*' {
			star, resume = at, in
			at++
			continue
		}
		wide := 1
		if at < len(pattern) && pattern[at] == '?' {
			_, wide = utf8.DecodeRuneInString(name[in:])
		}
		if at < len(pattern) && (pattern[at] == '?' || pattern[at] == name[in]) {
			at, in = at+1, in+wide
			continue
		}
		if star < 0 {
			return false
		}
		// The star takes one more character: patterns and names are both UTF-8, so a whole one.
		_, wide = utf8.DecodeRuneInString(name[resume:])
		resume += wide
		at, in = star+1, resume
	}
	for at < len(pattern) && pattern[at] == '*' {
		at++
	}
	return at == len(pattern)
}

// classOf returns the place of the class of a name; the number of classes if the bundle has no such class.
func (f *fact) classOf(name string) int32 {
	var found []int32
	for group, patterns := range f.groups {
		for _, pattern := range patterns {
			if matches(pattern, name) {
				found = append(found, int32(group))
				break
			}
		}
	}
	for place, class := range f.classes {
		if slices.Equal(class, found) {
			return int32(place)
		}
	}
	return int32(len(f.classes))
}
