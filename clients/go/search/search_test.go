package search_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/callability/callability/clients/go/search"
)

var documents = []search.Document{
	{ID: "git:git_log", Server: "git", Name: "git_log", Description: "Show the history of a branch."},
	{ID: "git:createBranch", Server: "git", Name: "createBranch", Description: "Creates a branch."},
	{ID: "git:delete_branches", Server: "git", Name: "delete_branches", Description: "Delete branches.", Parameters: []string{"dryRun"}},
	{ID: "wetter:vorhersage", Server: "wetter", Name: "vorhersage", Description: "Wie wird das Wetter in Köln?"},
	{ID: "天気:予報", Server: "天気", Name: "予報", Description: "明日の天気を見る。"},
}

func TestAQueryFindsToolsByWordsNamesParametersAndAnyScript(t *testing.T) {
	index := search.NewIndex(documents)
	for query, wanted := range map[string]string{
		"how do I create branches":   "git:createBranch",
		"deleting a branch":          "git:delete_branches",
		"git_log":                    "git:git_log",
		"dry_run":                    "git:delete_branches",
		"histories":                  "git:git_log",
		"Köln":                       "wetter:vorhersage",
		"天気":                         "天気:予報",
		"vorh":                       "wetter:vorhersage",
		"please show me the history": "git:git_log",
	} {
		if found := index.Search(query); len(found) == 0 || found[0] != wanted {
			t.Errorf("%s: found %q, wanted %s first", query, found, wanted)
		}
	}
	for _, query := range []string{"", " .,", "zebra", "of the"} {
		if found := index.Search(query); len(found) > 0 {
			t.Errorf("%s: found %q", query, found)
		}
	}
	if found := search.NewIndex(nil).Search("git"); len(found) > 0 {
		t.Errorf("found %q", found)
	}
}

func TestEqualDocumentsInAnyOrderGiveEqualResults(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var many []search.Document
	for number := range 200 {
		many = append(many, search.Document{
			ID: fmt.Sprintf("s%d:t%d", number%7, number), Server: fmt.Sprintf("s%d", number%7), Name: fmt.Sprintf("read_%d", number%5),
			Description: []string{"Read a file.", "Write a file.", "Read many files at once."}[number%3],
		})
	}
	wanted := search.NewIndex(many)
	for range 20 {
		random.Shuffle(len(many), func(one, other int) { many[one], many[other] = many[other], many[one] })
		index := search.NewIndex(many)
		for _, query := range []string{"read a file", "write files", "s3 read_2"} {
			if !slices.Equal(index.Search(query), wanted.Search(query)) {
				t.Fatalf("%s: the order of the documents changes the result", query)
			}
		}
	}
}

func TestWordsOfAQueryAreThoseThatMatchNames(t *testing.T) {
	if found := search.Words("readHTTPFile_2 x"); !slices.Equal(found, []string{"read", "http", "file", "2", "x"}) {
		t.Errorf("found %q", found)
	}
	words := search.QueryWords("Please read the file a FILE x")
	if !slices.Equal(words, []string{"read", "file"}) {
		t.Errorf("found %q", words)
	}
	if found := search.CountInName(words, search.Words("readFiles")); found != 2 {
		t.Errorf("found %d", found)
	}
	if !search.IsStopWord("the") || search.IsStopWord("file") {
		t.Error("found other stop words")
	}
}

func TestOfALongQueryTheRarestWordsAreLookedForInTexts(t *testing.T) {
	common := make([]string, 60)
	for place := range common {
		common[place] = fmt.Sprintf("common%c%cz", 'a'+place/26, 'a'+place%26)
	}
	all, firstHalf := strings.Join(common, " "), strings.Join(common[:32], " ")
	index := search.NewIndex([]search.Document{
		{ID: "s:one", Server: "s", Name: "one", Description: all},
		{ID: "s:two", Server: "s", Name: "two", Description: all},
		{ID: "s:fax", Server: "s", Name: "fax", Description: "Transmits a telegram."},
		{ID: "s:mail", Server: "s", Name: "mail"},
	})
	if found := index.Search(all + " telegram"); !slices.Contains(found, "s:fax") {
		t.Errorf("found %q, without the rarest word", found)
	}
	if found := index.Search(all + " mail"); !slices.Contains(found, "s:mail") {
		t.Errorf("found %q, without the name", found)
	}
	halves := search.NewIndex([]search.Document{
		{ID: "s:first", Server: "s", Name: "first", Description: firstHalf},
		{ID: "s:last", Server: "s", Name: "last", Description: strings.Join(common[32:], " ")},
	})
	if found := halves.Search(all); !slices.Equal(found, []string{"s:first"}) {
		t.Errorf("found %q: of equally rare words, the first ones count", found)
	}
}

// TestEveryLanguageFindsTheSame replays the vectors that the gateway's own index has, too.
func TestEveryLanguageFindsTheSame(t *testing.T) {
	text, err := os.ReadFile("../../../tests/vectors/search.json")
	if err != nil {
		t.Skip("the golden vectors are in a checkout of the repository alone")
	}
	var read struct {
		Documents []struct {
			Server, Name, Description string
			Parameters                []string
			Texts                     []string `json:"parameter_texts"`
		}
		Vectors []struct {
			Name, Query string
			Found, Near []string
		}
	}
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	var documents []search.Document
	for _, each := range read.Documents {
		documents = append(documents, search.Document{
			ID: each.Server + ":" + each.Name, Server: each.Server, Name: each.Name,
			Description: each.Description, Parameters: each.Parameters, ParameterTexts: each.Texts,
		})
	}
	index := search.NewIndex(documents)
	for _, vector := range read.Vectors {
		if found := index.Search(vector.Query); !slices.Equal(found, vector.Found) {
			t.Errorf("%s: found %q, wanted %q", vector.Name, found, vector.Found)
		}
		if found := index.SearchNear(vector.Query); !slices.Equal(found, vector.Near) {
			t.Errorf("%s: found %q near the best, wanted %q", vector.Name, found, vector.Near)
		}
	}
}

func BenchmarkSearch(b *testing.B) {
	var many []search.Document
	for number := range 10_000 {
		many = append(many, search.Document{
			ID: fmt.Sprint(number), Server: fmt.Sprintf("server-%d", number%50), Name: fmt.Sprintf("tool_%d", number),
			Description: fmt.Sprintf("Reads the file number %d of a project, and says what is in it.", number),
		})
	}
	index := search.NewIndex(many)
	b.Run("10000 tools", func(b *testing.B) {
		for b.Loop() {
			index.Search("what is in the file of my project")
		}
	})
}
