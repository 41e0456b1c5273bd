// Package shipped has the policy that callability ships, so that a proxy decides without a file and without a build step.
//
//	verdict := shipped.Policy().Decide(agent, tool)
//
// It is the policy of the version of this module. To change a rule, compile a policy of your own by `callability bundle build`.
package shipped

import (
	_ "embed"
	"fmt"
	"slices"
	"sync"

	"github.com/callability/callability/clients/go/callability"
)

//go:embed policy.bundle
var bundle []byte

var policy = sync.OnceValue(func() *callability.Policy {
	found, err := callability.ReadPolicy(bundle)
	if err != nil {
		panic(fmt.Sprintf("shipped: the module is damaged: %v", err))
	}
	return found
})

// Policy returns the shipped policy, which is read at the first call. It is the same for every caller.
func Policy() *callability.Policy { return policy() }

// Bundle returns the bundle of the shipped policy, such as for a file to start from. It belongs to the caller.
func Bundle() []byte { return slices.Clone(bundle) }
