// Package search finds tools by words: the words of a query and of a name, as the answers about locked tools find them, and
// an index for a proxy that has no search.
package search

import (
	"slices"
	"strings"
)

const (
	maxWord = 64
	// maxNameWords are the words of a query that are looked for in names, maxTextWords those that are looked for in texts.
	maxNameWords = 256
	maxTextWords = 32
)

var stopWords = func() map[string]bool {
	found := map[string]bool{}
	for _, word := range strings.Fields(`a an and are as at be but by can do does for from has have how i if in into is it
		its me my no not of on or our please so some such that the their then there these they this to us was we what when
		where which who will with would you your`) {
		found[word] = true
	}
	return found
}()

// IsStopWord reports whether a word, in small letters, says nothing about a tool, such as "the".
func IsStopWord(word string) bool { return stopWords[word] }

// Words splits a text or a name into words of ASCII letters and digits, in small letters: `readFile`, `read_file` and
// `read file` have the same.
func Words(text string) []string {
	var found []string
	start := 0
	end := func(place int) {
		for start < place {
			next := min(place, start+maxWord)
			found = append(found, strings.ToLower(text[start:next]))
			start = next
		}
	}
	for place := range len(text) {
		switch {
		case !isAlphanumeric(text[place]):
			end(place)
			start = place + 1
		case isHump(text, place):
			end(place)
		}
	}
	end(len(text))
	return found
}

// isHump reports whether a word begins at a capital: after a small letter or a digit, or before a small letter of a word
// whose other letters are capitals.
func isHump(text string, place int) bool {
	if !isCapital(text[place]) || place == 0 {
		return false
	}
	before := text[place-1]
	return isSmall(before) || isDigit(before) ||
		isCapital(before) && place+1 < len(text) && isSmall(text[place+1])
}

func isAlphanumeric(each byte) bool { return isSmall(each) || isCapital(each) || isDigit(each) }
func isSmall(each byte) bool        { return 'a' <= each && each <= 'z' }
func isCapital(each byte) bool      { return 'A' <= each && each <= 'Z' }
func isDigit(each byte) bool        { return '0' <= each && each <= '9' }

// QueryWords are the words of a query by which a tool is found by its name: the first 256 of two or more letters that are
// no stop words, each once.
func QueryWords(query string) []string {
	var found []string
	for _, word := range Words(query) {
		if len(word) >= 2 && !stopWords[word] && !slices.Contains(found, word) {
			if found = append(found, word); len(found) == maxNameWords {
				break
			}
		}
	}
	return found
}

// CountInName counts the words of a query that begin a word of a name. Rank by it what may be searched by name alone: most
// words first, then by name.
func CountInName(queryWords, nameWords []string) int {
	count := 0
	for _, word := range queryWords {
		if slices.ContainsFunc(nameWords, func(part string) bool { return strings.HasPrefix(part, word) }) {
			count++
		}
	}
	return count
}
