package search

import "strings"

// stemOf cuts the usual endings of an English word, so that `files` finds `file`, and `creating` finds `create`. It does
// less than Porter's, and costs less.
func stemOf(word string) string {
	if len(word) < 4 {
		return word
	}
	word = withoutPlural(word)
	for _, ending := range []string{"ing", "ed"} {
		stem, has := strings.CutSuffix(word, ending)
		if !has || !hasVowel(stem) || len(stem) < 3 {
			continue
		}
		if last := stem[len(stem)-1]; last == stem[len(stem)-2] && !strings.ContainsRune("lsz", rune(last)) {
			stem = stem[:len(stem)-1]
		}
		word = stem
		break
	}
	for _, each := range endings {
		if stem, has := strings.CutSuffix(word, each[0]); has && len(stem) >= 3 {
			return strings.TrimSuffix(stem+each[1], "e")
		}
	}
	if last := len(word) - 1; last >= 3 && (word[last] == 'e' || word[last] == 'y') {
		return word[:last]
	}
	return word
}

// endings are what is replaced, the longest first.
var endings = [][2]string{
	{"ization", "ize"}, {"ational", "ate"}, {"fulness", "ful"}, {"ousness", "ous"}, {"iveness", "ive"}, {"tional", "tion"},
	{"ication", "ic"}, {"ation", "at"}, {"ments", ""}, {"ment", ""}, {"ness", ""}, {"able", ""}, {"ible", ""},
	{"ance", ""}, {"ence", ""}, {"ator", "at"}, {"ions", ""}, {"ion", ""}, {"ers", ""}, {"ity", ""}, {"ate", "at"}, {"ly", ""},
	{"er", ""}, {"or", ""}, {"al", ""}, {"i", ""},
}

func withoutPlural(word string) string {
	switch {
	case strings.HasSuffix(word, "sses"):
		return word[:len(word)-2]
	case strings.HasSuffix(word, "ies"):
		return word[:len(word)-2]
	case strings.HasSuffix(word, "ss"), strings.HasSuffix(word, "us"), strings.HasSuffix(word, "is"):
		return word
	}
	return strings.TrimSuffix(word, "s")
}

func hasVowel(text string) bool { return strings.ContainsAny(text, "aeiouy") }
