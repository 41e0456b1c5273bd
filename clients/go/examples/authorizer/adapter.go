package authorizer

import (
	"context"
	"errors"

	"github.com/callability/callability/clients/go/callability"
)

// ErrLocked is the sentinel of every LockedError.
var ErrLocked = errors.New("authorizer: the tool cannot be called")

// A LockedError carries the words that the agent reads beside the no, so that a middleware can send them on.
type LockedError struct {
	Status callability.Status
	// Text is for the agent.
	Text string
}

func (e *LockedError) Error() string { return e.Text }

// Is reports whether the target is ErrLocked.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// A Guard is an Authorizer for the tools of one server.
type Guard struct {
	Policies  *callability.PolicyStore
	Inventory *callability.Inventory
	// Server is the name of the server in the inventory.
	Server string
	// Agent is the agent of a request, by the claims in its context; nil: it is unknown.
	Agent func(context.Context) *callability.Agent
}

var _ Authorizer = (*Guard)(nil)

// AuthorizeWithJWTClaims decides about calls of tools. The middleware asks it about each tool of a list, too: a list itself
// is authorized. Prompts and resources are no business of this policy, and are left to other authorizers.
func (g *Guard) AuthorizeWithJWTClaims(
	ctx context.Context, feature Feature, operation Operation, resourceID string, _ map[string]any,
) (bool, error) {
	if feature != FeatureTool || operation != OperationCall {
		return true, nil
	}
	name := g.Inventory.Adapter.Qualified(g.Server, resourceID)
	found := g.Inventory.Decide(ctx, g.Policies.Load(), g.Agent(ctx), callability.Servers(g.Server), name)
	if !found.Callable() {
		return false, &LockedError{found.Verdict.Status(), found.Rejection.Text}
	}
	return true, nil
}
