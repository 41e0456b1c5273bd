package main

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// A document is one tool.
type document = struct{ Name, Description string }

// search finds documents by the words of a query: most words first, then by name. It looks at these documents alone.
func search(query string, documents []document) []string {
	type hit struct {
		name  string
		score int
	}
	wanted := words(query)
	var hits []hit
	for _, each := range documents {
		found, score := words(each.Name+" "+each.Description), 0
		for _, word := range wanted {
			if slices.ContainsFunc(found, func(each string) bool { return strings.HasPrefix(each, word) }) {
				score++
			}
		}
		if score > 0 {
			hits = append(hits, hit{each.Name, score})
		}
	}
	slices.SortFunc(hits, func(one, other hit) int {
		return cmp.Or(cmp.Compare(other.score, one.score), strings.Compare(one.name, other.name))
	})
	names := make([]string, len(hits))
	for place, each := range hits {
		names[place] = each.name
	}
	return names
}

func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
}
