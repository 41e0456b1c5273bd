package callability_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/shipped"
)

// events are the lines that a logger receives.
type events chan string

func (e events) Write(line []byte) (int, error) {
	e <- string(line)
	return len(line), nil
}

// await returns the next event with a name.
func (e events) await(t *testing.T, name string) string {
	t.Helper()
	for deadline := time.After(time.Minute); ; {
		select {
		case line := <-e:
			if strings.Contains(line, "msg="+name+" ") {
				return line
			}
		case <-deadline:
			t.Fatalf("found no event %s", name)
		}
	}
}

func TestAStoreFollowsAFileUntilItsContextEnds(t *testing.T) {
	path, seen := filepath.Join(t.TempDir(), "policy.bundle"), make(events, 100)
	store := callability.PolicyStore{
		Interval: time.Millisecond, Hooks: callability.Hooks{Logger: slog.New(slog.NewTextHandler(seen, nil))},
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- store.Watch(ctx, path) }()
	seen.await(t, "bundle_unread")
	// replace renames another file into the place of the one that is followed.
	replace := func(bundle []byte) {
		t.Helper()
		if err := os.WriteFile(path+".new", bundle, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	replace(shipped.Bundle())
	seen.await(t, "policy_accepted")
	first := store.Load()
	if first.Digest() != shipped.Policy().Digest() {
		t.Errorf("found the policy %s", first.Digest())
	}
	replace([]byte("rules:"))
	if line := seen.await(t, "bundle_refused"); !strings.Contains(line, "code=not-a-bundle") || store.Load().Digest() != first.Digest() {
		t.Errorf("found %s and the policy %s", line, store.Load().Digest())
	}
	other, err := os.ReadFile(filepath.Join("testdata", "quotas.bundle"))
	if err != nil {
		t.Fatal(err)
	}
	replace(other)
	seen.await(t, "policy_accepted")
	if store.Load().Digest() == first.Digest() {
		t.Error("the policy before the change decides")
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("found %v", err)
	}
}

func TestWhatAStoreDemandsHoldsForEveryBundle(t *testing.T) {
	public, private := generated(t)
	store := callability.PolicyStore{Options: []callability.Option{
		callability.TrustKeys(map[string]ed25519.PublicKey{"2026": public}), callability.NotBefore(7),
	}}
	payload := shippedPayload(t)
	keys := map[string]ed25519.PrivateKey{"2026": private}
	counted := func(sequence int) []byte { return append([]byte(nil), append(payload, fields(3, sequence)...)...) }
	if err := store.Replace(enveloped(counted(8))); !errors.Is(err, callability.ErrNotSigned) {
		t.Errorf("found %v", err)
	}
	if err := store.Replace(signed(counted(6), keys)); !errors.Is(err, callability.ErrOlderSequence) {
		t.Errorf("found %v", err)
	}
	path := filepath.Join(t.TempDir(), "policy.bundle")
	if err := os.WriteFile(path, signed(counted(8), keys), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := store.ReplaceFile(path); err != nil || store.Load().Sequence() != 8 {
		t.Errorf("found %v and the sequence %d", err, store.Load().Sequence())
	}
	if err := store.Replace(signed(counted(7), keys)); !errors.Is(err, callability.ErrOlderSequence) || store.Load().Sequence() != 8 {
		t.Errorf("found %v and the sequence %d", err, store.Load().Sequence())
	}
}

func TestIntervalsAndLimitsThatAreNegativeAreTheDefaults(t *testing.T) {
	store := callability.PolicyStore{Interval: -time.Second}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := store.Watch(ctx, filepath.Join(t.TempDir(), "policy.bundle")); !errors.Is(err, context.Canceled) {
		t.Errorf("found %v", err)
	}
	negative := callability.Adapter{Limits: callability.Limits{Default: -1, Max: -1, Locked: -1}}
	found, err := negative.Arguments([]byte(`{"query": "note"}`))
	if err != nil || found.Limit != callability.DefaultLimit {
		t.Errorf("found %+v, %v", found, err)
	}
	if found, wanted := negative.DiscoverySchema(), (callability.Adapter{}).DiscoverySchema(); string(found) != string(wanted) {
		t.Errorf("found %s, wanted %s", found, wanted)
	}
	judgement := negative.Judgement([]callability.Item{{Server: "git", Tool: "log", Answer: callability.Answer{
		Status: callability.StatusDisabledByConfig,
	}}})
	if locked := judgement.Locked(callability.Discovery{Query: "log"}); len(locked.Shown) != 1 {
		t.Errorf("found %+v", locked)
	}
}
