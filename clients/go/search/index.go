package search

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
)

// A Document is what an Index looks at of one tool. What is withheld or missing is empty.
type Document struct {
	// ID is what Search returns, such as the qualified name.
	ID                        string
	Server, Name, Description string
	// Parameters are the names of parameters, ParameterTexts their descriptions.
	Parameters, ParameterTexts []string
}

// An Index finds tools by words, and never changes: equal documents in any order give equal results. Put callable tools and
// locked ones into two indexes, so that locked tools change no score. It is safe for concurrent use.
type Index struct {
	ids    []string
	fields [fieldCount]field
	// whole are documents by the letters of a name, or of a parameter.
	wholeNames, wholeParameters map[string][]int32
	// beginnings are documents by what a word of a name begins with.
	beginnings map[string][]int32
}

const (
	inName = iota
	inServer
	inDescription
	inParameters
	inParameterTexts
	fieldCount
)

// A field has the documents of each stem, and how long the text of each document is.
type field struct {
	postings map[string][]posting
	lengths  []int32
	average  float64
}

type posting struct{ document, count int32 }

// Each is far above what one word adds: a whole name comes first, then names with all words of the query, or what these
// begin, then parameters that are named as such, and then whatever words are found.
const (
	ofWholeName      = 100.0
	ofAllInName      = 50.0
	ofWholeParameter = 10.0
	ofBeginning      = 0.5
	ofName           = 2.0
	// ofOtherFields is how much of a word's score in each other field is added to that in the best one.
	ofOtherFields = 0.3
	// near is the least part of the best score that a hit near the best one has.
	near = 0.2

	shortestBeginning = 2
	maxQueryBytes     = 10_000
)

// NewIndex returns an index of some documents.
func NewIndex(documents []Document) *Index {
	documents = slices.SortedFunc(slices.Values(documents), func(one, other Document) int { return strings.Compare(one.ID, other.ID) })
	x := &Index{wholeNames: map[string][]int32{}, wholeParameters: map[string][]int32{}, beginnings: map[string][]int32{}}
	for place := range x.fields {
		x.fields[place].postings = map[string][]posting{}
	}
	for place := range documents {
		x.add(int32(place), &documents[place])
	}
	for place := range x.fields {
		total := 0
		for _, length := range x.fields[place].lengths {
			total += int(length)
		}
		x.fields[place].average = float64(total) / float64(max(1, len(documents)))
	}
	return x
}

func (x *Index) add(document int32, d *Document) {
	x.ids = append(x.ids, d.ID)
	name, server := textWords(d.Name), textWords(d.Server)
	for place, words := range [fieldCount][]string{
		name, server, textWords(d.Description), textWords(strings.Join(d.Parameters, " ")), textWords(strings.Join(d.ParameterTexts, " ")),
	} {
		x.fields[place].add(document, words)
	}
	for _, whole := range []string{strings.Join(name, ""), strings.Join(server, "") + strings.Join(name, "")} {
		addOnce(x.wholeNames, whole, document)
	}
	for _, each := range d.Parameters {
		addOnce(x.wholeParameters, strings.Join(textWords(each), ""), document)
	}
	for _, word := range slices.Concat(name, server) {
		for end := range word {
			if end >= shortestBeginning {
				addOnce(x.beginnings, word[:end], document)
			}
		}
		if len(word) >= shortestBeginning {
			addOnce(x.beginnings, word, document)
		}
	}
}

// addOnce adds a document, which is the last one if it is there.
func addOnce(to map[string][]int32, key string, document int32) {
	if found := to[key]; len(found) == 0 || found[len(found)-1] != document {
		to[key] = append(found, document)
	}
}

func (f *field) add(document int32, words []string) {
	f.lengths = append(f.lengths, int32(len(words)))
	for _, word := range words {
		stem := stemOf(word)
		found := f.postings[stem]
		if len(found) > 0 && found[len(found)-1].document == document {
			found[len(found)-1].count++
			continue
		}
		f.postings[stem] = append(found, posting{document, 1})
	}
}

// textWords splits a text into words of letters and digits of any script. In Chinese and Japanese every character is one.
func textWords(text string) []string {
	if isASCII(text) {
		return Words(text)
	}
	var found []string
	for _, run := range strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r) }) {
		if isASCII(run) {
			found = append(found, Words(run)...)
			continue
		}
		start := 0
		run = strings.ToLower(run)
		for place, character := range run {
			if unicode.In(character, unicode.Han, unicode.Hiragana, unicode.Katakana) {
				found = appendWord(found, run[start:place])
				found = append(found, string(character))
				start = place + len(string(character))
			}
		}
		found = appendWord(found, run[start:])
	}
	return found
}

func appendWord(to []string, word string) []string {
	if word == "" {
		return to
	}
	return append(to, word)
}

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r >= 0x80 })
}

// Search returns the IDs of what a query finds, best first. Every text is a query; stop words count only in a query of
// nothing else.
func (x *Index) Search(query string) []string {
	found, _ := x.ranked(query)
	return x.idsOf(found)
}

// SearchNear returns those of them that are not far below the best one: what an agent is shown of callable tools.
func (x *Index) SearchNear(query string) []string {
	found, scores := x.ranked(query)
	end := slices.IndexFunc(found, func(document int) bool { return scores[document] < near*scores[found[0]] })
	if end >= 0 {
		found = found[:end]
	}
	return x.idsOf(found)
}

func (x *Index) idsOf(documents []int) []string {
	ids := make([]string, len(documents))
	for place, document := range documents {
		ids[place] = x.ids[document]
	}
	return ids
}

// ranked are the documents that a query finds, best first, and the score of every document.
func (x *Index) ranked(query string) (found []int, scores []float64) {
	query = query[:min(len(query), maxQueryBytes)]
	all := unique(textWords(query))
	wanted, fields := slices.DeleteFunc(slices.Clone(all), IsStopWord), x.fields[:]
	if len(wanted) == 0 {
		wanted, fields = all, x.fields[:inDescription]
	}
	scores = make([]float64, len(x.ids))
	for _, meant := range meantNames(query) {
		addTo(scores, x.wholeNames[meant], ofWholeName)
		addTo(scores, x.wholeParameters[meant], ofWholeParameter)
	}
	best, sum := make([]float64, len(x.ids)), make([]float64, len(x.ids))
	inQuery := unique(stems(wanted))
	inTexts := x.rarest(inQuery, fields)
	for _, stem := range unique(slices.Concat(inQuery[:min(len(inQuery), maxNameWords)], inTexts)) {
		if slices.Contains(inTexts, stem) {
			x.addStem(scores, best, sum, fields, stem)
		} else {
			x.addStem(scores, best, sum, fields[:inDescription], stem)
		}
	}
	inAll := make([]int, len(x.ids))
	for _, word := range wanted[:min(len(wanted), maxNameWords)] {
		addTo(scores, x.beginnings[word], ofBeginning)
		for _, document := range x.beginnings[word] {
			inAll[document]++
		}
	}
	for document, score := range scores {
		if len(wanted) > 0 && inAll[document] == len(wanted) {
			score += ofAllInName
		}
		if score > 0 {
			found = append(found, document)
		}
		// Rounded: the last digits of a sum depend on the order in which its parts were added.
		scores[document] = math.Round(score*1e4) / 1e4
	}
	slices.SortFunc(found, func(one, other int) int {
		return cmp.Or(cmp.Compare(scores[other], scores[one]), cmp.Compare(one, other))
	})
	return found, scores
}

// rarest are the stems that are in the fewest documents, of those that are in one: all of them, or as many as are looked for
// in texts. Of equally rare ones, the earlier one counts.
func (x *Index) rarest(stems []string, fields []field) []string {
	if len(stems) <= maxTextWords {
		return stems
	}
	documents := map[string]int{}
	for _, stem := range stems {
		for place := range fields {
			documents[stem] = max(documents[stem], len(fields[place].postings[stem]))
		}
	}
	known := slices.DeleteFunc(slices.Clone(stems), func(stem string) bool { return documents[stem] == 0 })
	slices.SortStableFunc(known, func(one, other string) int { return cmp.Compare(documents[one], documents[other]) })
	return known[:min(len(known), maxTextWords)]
}

// addStem adds mostly the best field, not the sum: a tool with two words of the query comes before one that repeats one.
func (x *Index) addStem(scores, best, sum []float64, fields []field, stem string) {
	var touched []int32
	for place := range fields {
		f := &fields[place]
		found := f.postings[stem]
		// BM25, with its usual constants.
		frequency := math.Log(1 + (float64(len(x.ids)-len(found))+0.5)/(float64(len(found))+0.5))
		for _, each := range found {
			count := float64(each.count)
			score := frequency * count * 2.2 / (count + 1.2*(0.25+0.75*float64(f.lengths[each.document])/f.average))
			if place == inName {
				score *= ofName
			}
			best[each.document] = max(best[each.document], score)
			sum[each.document] += score
			touched = append(touched, each.document)
		}
	}
	for _, document := range touched {
		scores[document] += best[document] + ofOtherFields*(sum[document]-best[document])
		best[document], sum[document] = 0, 0
	}
}

func addTo(scores []float64, documents []int32, more float64) {
	for _, document := range documents {
		scores[document] += more
	}
}

// meantNames are what may be a name: the query as a whole, and each compound such as `delete_file` in it.
func meantNames(query string) []string {
	found := []string{strings.Join(textWords(query), "")}
	pieces := strings.Fields(query)
	for _, piece := range pieces[:min(len(pieces), maxNameWords)] {
		if parts := textWords(piece); len(parts) > 1 {
			found = append(found, strings.Join(parts, ""))
		}
	}
	return slices.DeleteFunc(unique(found), func(name string) bool { return name == "" })
}

func stems(words []string) []string {
	found := make([]string, len(words))
	for place, word := range words {
		found[place] = stemOf(word)
	}
	return found
}

// unique returns each text once, in the order of the first.
func unique(texts []string) []string {
	seen := make(map[string]bool, len(texts))
	return slices.DeleteFunc(slices.Clone(texts), func(text string) bool {
		again := seen[text]
		seen[text] = true
		return again
	})
}
