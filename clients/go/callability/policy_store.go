package callability

import (
	"context"
	"errors"
	"sync/atomic"
)

// A PolicyStore holds the policy that is in effect, and swaps it whole. Its zero value has no policy.
type PolicyStore struct {
	// Hooks receive what Replace does. Set them before the first use.
	Hooks Hooks

	current atomic.Pointer[Policy]
}

// Load returns the policy that is in effect; nil if there is none yet.
func (s *PolicyStore) Load() *Policy { return s.current.Load() }

// Swap puts a policy into effect, and returns the one before it.
func (s *PolicyStore) Swap(policy *Policy) *Policy { return s.current.Swap(policy) }

// Replace reads a bundle and puts it into effect. A refused bundle changes nothing, and so does one whose sequence number
// is lower than that of the policy in effect, or than NotBefore demands; to roll back on purpose, read it and Swap.
func (s *PolicyStore) Replace(bundle []byte, options ...Option) error {
	for {
		before := s.Load()
		policy, err := ReadPolicy(bundle, append(options[:len(options):len(options)], NotBefore(before.Sequence()))...)
		if err != nil {
			s.refused(err)
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

func (s *PolicyStore) refused(err error) {
	var refused *BundleError
	if errors.As(err, &refused) {
		s.Hooks.Error(context.Background(), "bundle_refused", "code", refused.Code(), "why", err.Error())
		s.Hooks.Measure("callability_client_bundles_refused_total", 1, "code", refused.Code())
	}
}
