// Package link lets the package outcome decide by a policy, whose rules are no part of any public interface.
package link

// The questions of an outcome.
const (
	Loads   = 1
	Enables = 2
)

// An Outcome is what was decided about a load or an enable, in the numbers of the contract.
type Outcome struct {
	Status, LiftedBy, Retry, Entry, ToolsChanged int32
	Failed, Undetermined                         bool
	Rule                                         string
	// HasWords reports whether Message are the words for the status.
	HasWords bool
	Message  string
}

// Decide decides a question by a *callability.Policy, whose package sets it. It is false without a policy, and for facts
// that cannot occur together, which no proxy sends.
var Decide func(policy any, question int, values map[string]string) (Outcome, bool)
