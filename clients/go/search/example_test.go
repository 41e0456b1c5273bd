package search_test

import (
	"fmt"

	"github.com/callability/callability/clients/go/search"
)

// Callable tools and locked ones have an index each. Search the first by SearchNear, and the second by Search.
func ExampleIndex() {
	callable := search.NewIndex([]search.Document{
		{ID: "git:git_log", Server: "git", Name: "git_log", Description: "Show the commits of a branch."},
		{ID: "git:git_diff", Server: "git", Name: "git_diff", Description: "Show what has changed."},
		{ID: "files:read", Server: "files", Name: "read", Description: "Read a file."},
	})
	locked := search.NewIndex([]search.Document{{ID: "git:git_push", Server: "git", Name: "git_push", Description: "Send commits."}})
	fmt.Println(callable.SearchNear("show the commits"))
	fmt.Println(locked.Search("commits"))
	// Output:
	// [git:git_log git:git_diff]
	// [git:git_push]
}
