package remote_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/callability/callability/clients/go/remote"
)

// reworded edits the policy, so that it has another revision and answers the same.
func reworded(t *testing.T, directory string, round int) {
	t.Helper()
	path := filepath.Join(directory, "callability.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	edited := strings.Replace(string(text), "rules:", fmt.Sprintf("# Round %d.\nrules:", round), 1)
	if err := os.WriteFile(path, []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFiftyWatchersDecideWhileTheServiceIsKilledAndRestarted(t *testing.T) {
	directory := policyDirectory(t)
	service := serve(t, directory, "127.0.0.1:0")
	address, tool := service.address, tools()[0]
	var locals []*remote.Local
	for range 50 {
		locals = append(locals, followed(t, dial(t, address), remote.LocalOptions{MaxAge: generous}))
	}
	// Every watcher has one revision, and decides by it.
	agreed := func(other string) (revision string, all bool) {
		for place, local := range locals {
			policy := local.Policy()
			if policy == nil || policy.Revision() == other || place > 0 && policy.Revision() != revision {
				return "", false
			}
			if !policy.Decide(nil, tool).Callable() {
				t.Fatalf("watcher %d: found %s", place, policy.Decide(nil, tool).Status())
			}
			revision = policy.Revision()
		}
		return revision, true
	}
	revision := ""
	waitUntil(t, "a policy of every watcher", func() bool {
		found, all := agreed("")
		revision = found
		return all
	})
	for round := range 3 {
		service.kill()
		if found, all := agreed(""); !all || found != revision {
			t.Errorf("round %d: not every watcher decides while no service runs", round)
		}
		reworded(t, directory, round)
		service = serve(t, directory, address)
		before := revision
		waitUntil(t, "the edit at every watcher", func() bool {
			found, all := agreed(before)
			revision = found
			return all
		})
	}
}
