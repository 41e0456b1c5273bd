// Package policyclient adapts callability to a gateway that asks a policy client before it loads a server and before it
// calls a tool, as Docker's mcp-gateway does.
package policyclient

import "context"

// The seam, as the gateway has it.
type (
	// An Action is what the gateway is about to do.
	Action string
	// A Request names a server, and a tool if the action is about one.
	Request struct {
		Server, Tool string
		Action       Action
	}
	// A Decision is allowed, or has a reason for people.
	Decision struct {
		Allowed bool
		Reason  string
	}
	// A Client decides.
	Client interface {
		Evaluate(ctx context.Context, request Request) (Decision, error)
	}
)

// The actions.
const (
	ActionLoad   Action = "load"
	ActionInvoke Action = "invoke"
)
