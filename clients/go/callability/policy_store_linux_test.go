package callability_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/shipped"
)

// A process without a free descriptor stands for whatever keeps a file from being read and changes nothing of it, such as its
// mode: for root, there is no other.
func TestAStoreReadsAFileOnceItCanBeRead(t *testing.T) {
	path, seen := filepath.Join(t.TempDir(), "policy.bundle"), make(events, 100)
	if err := os.WriteFile(path, shipped.Bundle(), 0o600); err != nil {
		t.Fatal(err)
	}
	store := callability.PolicyStore{
		Interval: time.Millisecond, Hooks: callability.Hooks{Logger: slog.New(slog.NewTextHandler(seen, nil))},
	}
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	restore := func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(restore)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	go func() { _ = store.Watch(t.Context(), path) }()
	if line := seen.await(t, "bundle_unread"); !strings.Contains(line, "too many open files") {
		t.Errorf("found %s", line)
	}
	restore()
	seen.await(t, "policy_accepted")
	if store.Load().Digest() != shipped.Policy().Digest() {
		t.Errorf("found the policy %s", store.Load().Digest())
	}
}
