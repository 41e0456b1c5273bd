// Package authorizer adapts callability to a proxy whose middleware asks for a yes or a no, as ToolHive's does.
package authorizer

import "context"

// The seam, as the proxy has it.
type (
	// A Feature is a kind of what a server offers.
	Feature string
	// An Operation is what a client does with it.
	Operation string
	// An Authorizer decides. The claims of the client are in the context.
	Authorizer interface {
		AuthorizeWithJWTClaims(
			ctx context.Context, feature Feature, operation Operation, resourceID string, arguments map[string]any,
		) (bool, error)
	}
)

// The features and operations of tools.
const (
	FeatureTool   Feature   = "tool"
	OperationList Operation = "list"
	OperationCall Operation = "call"
)
