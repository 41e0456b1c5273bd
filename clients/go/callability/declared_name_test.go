package callability

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/callability/callability/clients/go/internal/wording"
)

// TestANameIsThatOfADeclaredFactAsTheAdapterDefinesIt compares with the expression of docs/adapter.md, which costs a program
// a quarter of a megabyte.
func TestANameIsThatOfADeclaredFactAsTheAdapterDefinesIt(t *testing.T) {
	form := regexp.MustCompile(`^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$`)
	random := rand.New(rand.NewPCG(1, 2))
	parts := []string{"proxy", "quota", "a", "z9_", ".", ".", ".", "_", "9", "A", "-", "é", "\n", " ", "server", "tool"}
	declared := 0
	for range 20_000 {
		var name string
		for range random.IntN(6) {
			name += parts[random.IntN(len(parts))]
		}
		first, _, _ := strings.Cut(name, ".")
		wanted := form.MatchString(name) && !slices.Contains(reservedNames, first)
		if found := isDeclared(name); found != wanted {
			t.Fatalf("%q: found %t, wanted %t", name, found, wanted)
		}
		if wanted {
			declared++
		}
	}
	if declared < 100 || isDeclared("p."+strings.Repeat("q", wording.MaxShownName)) {
		t.Errorf("found %d names, or one that is too long", declared)
	}
}
