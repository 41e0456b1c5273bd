package callability

import (
	"slices"
	"strings"
)

const (
	maxWord        = 64
	maxWantedWords = 32
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

// nameWords splits a query or a name into words of ASCII letters and digits, in small letters.
func nameWords(text string) []string {
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

// isHump says whether a word begins at a capital: after a small letter or a digit, or before a small letter of a word
// whose other letters are capitals.
func isHump(text string, place int) bool {
	if !isCapital(text[place]) || place == 0 {
		return false
	}
	before := text[place-1]
	return isSmall(before) || isDigit(before) ||
		isCapital(before) && place+1 < len(text) && isSmall(text[place+1])
}

func wantedWords(query string) []string {
	var found []string
	for _, word := range nameWords(query) {
		if len(word) >= 2 && !stopWords[word] && !slices.Contains(found, word) {
			if found = append(found, word); len(found) == maxWantedWords {
				break
			}
		}
	}
	return found
}

// wordsMatched counts the words of a query that begin a word of a tool's or a server's name.
func wordsMatched(wanted []string, parts ...[]string) int {
	count := 0
	for _, word := range wanted {
		if slices.ContainsFunc(slices.Concat(parts...), func(part string) bool { return strings.HasPrefix(part, word) }) {
			count++
		}
	}
	return count
}
