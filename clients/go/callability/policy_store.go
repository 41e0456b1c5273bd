package callability

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"sync/atomic"
	"time"
)

// A PolicyStore holds the policy that is in effect, and swaps it whole. Its zero value has no policy. Set its fields before
// the first use. It is safe for concurrent use; do not copy it.
type PolicyStore struct {
	// Options are demanded of every bundle, such as TrustKeys.
	Options []Option
	// Interval is how often Watch looks at its file; by default, and if it is not positive, two seconds.
	Interval time.Duration
	// Hooks receive what becomes of a bundle.
	Hooks Hooks

	current atomic.Pointer[Policy]
}

const defaultInterval = 2 * time.Second

// Load returns the policy that is in effect; nil if there is none yet.
func (s *PolicyStore) Load() *Policy { return s.current.Load() }

// Swap puts a policy into effect, and returns the one before it.
func (s *PolicyStore) Swap(policy *Policy) *Policy { return s.current.Swap(policy) }

// Replace reads a bundle and puts it into effect. A refused bundle changes nothing, and so does one whose sequence number
// is lower than that of the policy in effect, or than Options demand; to roll back on purpose, read it and Swap.
func (s *PolicyStore) Replace(bundle []byte) error {
	return s.reported(s.replace(func(options []Option) (*Policy, error) { return ReadPolicy(bundle, options...) }))
}

// ReplaceFile does with a file what Replace does with a bundle. An error wraps a *[BundleError], or is one of the file.
func (s *PolicyStore) ReplaceFile(path string) error { return s.reported(s.replaceFile(path)) }

func (s *PolicyStore) replaceFile(path string) error {
	return s.replace(func(options []Option) (*Policy, error) { return ReadPolicyFile(path, options...) })
}

func (s *PolicyStore) replace(read func([]Option) (*Policy, error)) error {
	for {
		before := s.Load()
		policy, err := read(append(s.Options[:len(s.Options):len(s.Options)], NotBefore(before.Sequence())))
		if err != nil {
			return err
		}
		if s.current.CompareAndSwap(before, policy) {
			if policy.Digest() != before.Digest() {
				s.Hooks.Info(context.Background(), "policy_accepted", "revision", policy.Revision(), "sequence", policy.Sequence())
			}
			return nil
		}
	}
}

// reported hands why a bundle is not in effect to the hooks, and returns it.
func (s *PolicyStore) reported(err error) error {
	if err == nil {
		return nil
	}
	var refused *BundleError
	if !errors.As(err, &refused) {
		s.Hooks.Warn(context.Background(), "bundle_unread", "why", err.Error())
		return err
	}
	s.Hooks.Error(context.Background(), "bundle_refused", "code", refused.Code(), "why", err.Error())
	s.Hooks.Measure("callability_client_bundles_refused_total", 1, "code", refused.Code())
	return err
}

// Watch puts the bundle of a file into effect now and whenever the file changes, until the context ends, and returns its
// error. A file that is refused changes nothing, and one that cannot be read is tried again; Hooks say why, once for each
// change. Replace the file by renaming another one, so that no half of it is ever read. At start, ReplaceFile reports whether
// there is a policy.
func (s *PolicyStore) Watch(ctx context.Context, path string) error {
	ticker := time.NewTicker(cmp.Or(max(s.Interval, 0), defaultInterval))
	defer ticker.Stop()
	var seen sighting
	unread := ""
	for ctx.Err() == nil {
		// What kept a file from being read, such as its mode, need not change what it looks like.
		if now := see(path); unread != "" || !now.equal(seen) {
			seen, unread = now, s.follow(path, unread)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	return ctx.Err()
}

// follow puts the bundle of a file into effect, and returns why the file could not be read, which is reported unless it was.
func (s *PolicyStore) follow(path, reported string) (unread string) {
	err := s.replaceFile(path)
	if refused := (*BundleError)(nil); err == nil || errors.As(err, &refused) {
		_ = s.reported(err) // the hooks have it
		return ""
	}
	if err.Error() != reported {
		_ = s.reported(err) // the hooks have it
	}
	return err.Error()
}

// A sighting is what a file looked like before it was read, or why it could not be looked at.
type sighting struct {
	about fs.FileInfo
	err   string
}

func see(path string) sighting {
	about, err := os.Stat(path)
	if err != nil {
		return sighting{err: err.Error()}
	}
	return sighting{about: about}
}

func (s sighting) equal(other sighting) bool {
	if s.about == nil || other.about == nil {
		return s.about == nil && other.about == nil && s.err == other.err
	}
	return os.SameFile(s.about, other.about) && s.about.Size() == other.about.Size() &&
		s.about.ModTime().Equal(other.about.ModTime())
}
