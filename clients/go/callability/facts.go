package callability

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/callability/callability/clients/go/internal/enum"
)

// A Bool is true, false or unknown, which is its zero value: a fact that nobody set locks.
type Bool uint8

// The values of a Bool.
const (
	// Unknown was not read, and a later call may know it.
	Unknown Bool = iota
	// False is a value that was read.
	False
	// True is a value that was read.
	True
	// Neither is for a record of an approval: it was read, and is neither true nor false, so that it is unknown until a person
	// corrects it.
	Neither
)

var boolNames = [...]string{"unknown", "false", "true", "neither"}

func (b Bool) String() string { return enum.Name(b, boolNames[:]) }

// MarshalText returns the word that String returns.
func (b Bool) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads a word that String returns. A number of a later version is an error.
func (b *Bool) UnmarshalText(text []byte) error { return enum.Parse(b, text, boolNames[:]) }

// Known returns the Bool of a value that could be read.
func Known(value bool) Bool {
	if value {
		return True
	}
	return False
}

// Labels are values by key. Nil labels are unknown; of others, a key that is missing is not there.
type Labels map[string]string

// NoLabels returns labels that could be read, and are none: a map of its own for each caller.
func NoLabels() Labels { return Labels{} }

// Declared are the values of facts that the rule file declares, by name. One that is missing is unknown.
type Declared map[string]string

// ServerFacts are the facts of a server. In the zero value all are unknown.
type ServerFacts struct {
	Enabled     Bool
	Quarantined Bool
	Labels      Labels
	Declared    Declared
}

// ToolFacts are the facts of a tool. In the zero value all are unknown, and the caller does not refuse.
type ToolFacts struct {
	ConfigDenied Bool
	Approval     Approval
	// CallerRefuses asserts that the caller's own gate refuses the tool. It is never unknown.
	CallerRefuses bool
	// Annotations are the upstream's claims; nil: unknown.
	Annotations *Annotations
	Labels      Labels
	Declared    Declared
}

// AgentFacts are the facts of an agent that is known. An empty name is the value of an agent without a name.
type AgentFacts struct {
	Name     string
	Labels   Labels
	Declared Declared
}

// Annotations are what an upstream says about its tool. A nil hint is omitted, and has the default of MCP.
type Annotations struct {
	ReadOnly    *bool
	Destructive *bool
	Idempotent  *bool
	OpenWorld   *bool
}

// ApprovalStatus is the status in an approval record. The zero value was not read, and is unknown.
type ApprovalStatus uint8

// The statuses of an approval record.
const (
	// ApprovalUnknown was not read, and a later call may know it.
	ApprovalUnknown ApprovalStatus = iota
	// ApprovalApproved: a person approved the tool as it is now.
	ApprovalApproved
	// ApprovalPending: nobody has reviewed the tool yet.
	ApprovalPending
	// ApprovalChanged: the tool has changed since it was approved.
	ApprovalChanged
	// ApprovalOther was read and is none of these: it is unknown until a person corrects it.
	ApprovalOther
)

var approvalNames = [...]string{"unknown", "approved", "pending", "changed", "other"}

func (s ApprovalStatus) String() string { return enum.Name(s, approvalNames[:]) }

// MarshalText returns the word that String returns.
func (s ApprovalStatus) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a word that String returns. A number of a later version is an error.
func (s *ApprovalStatus) UnmarshalText(text []byte) error {
	return enum.Parse(s, text, approvalNames[:])
}

// An Approval is what was read about the approval of a tool. The zero value is unreadable.
type Approval struct {
	kind     uint8
	disabled Bool
	status   ApprovalStatus
}

const (
	approvalUnreadable = iota
	approvalNone
	approvalRecord
)

// NoRecord returns the approval of a tool that has no record, and counts as approved.
func NoRecord() Approval { return Approval{kind: approvalNone} }

// Record returns the approval of a tool with a record, of which either field may be unknown.
func Record(disabled Bool, status ApprovalStatus) Approval {
	return Approval{approvalRecord, disabled, status}
}

// Known reports whether the approval could be read, and whether there is a record.
func (a Approval) Known() (readable, record bool) {
	return a.kind != approvalUnreadable, a.kind == approvalRecord
}

// Fields are what a record says.
func (a Approval) Fields() (disabled Bool, status ApprovalStatus) { return a.disabled, a.status }

// text returns the values of `approval.disabled` and `approval.status`; empty is unknown.
func (a Approval) text() (disabled, status string) {
	switch a.kind {
	case approvalNone:
		return "false", "none"
	case approvalRecord:
		if ApprovalUnknown < a.status && a.status < ApprovalOther {
			status = a.status.String()
		}
		return boolText(a.disabled), status
	}
	return "", ""
}

func boolText(b Bool) string {
	switch b {
	case True:
		return "true"
	case False:
		return "false"
	}
	return ""
}

// hints returns the values of the four hints in their order. A tool that is known to be read-only destroys nothing and
// is idempotent, whatever else it says; otherwise, a hint that is omitted has the default of MCP.
func (a *Annotations) hints() (readOnly, destructive, idempotent, openWorld string) {
	if a == nil {
		return "", "", "", ""
	}
	given := func(hint *bool, otherwise bool) string {
		if hint != nil {
			otherwise = *hint
		}
		return boolText(Known(otherwise))
	}
	openWorld = given(a.OpenWorld, true)
	if a.ReadOnly != nil && *a.ReadOnly {
		return "true", "false", "true", openWorld
	}
	return "false", given(a.Destructive, true), given(a.Idempotent, false), openWorld
}

// ErrNoPolicy says that there was no policy to decide by.
var ErrNoPolicy = errors.New("callability: there is no policy")

// An ItemError says what is wrong with a tool, a server or an agent. Its verdict is [StatusDisabledUnknown], its text
// withheld.
type ItemError struct {
	// Reason is a stable name of the kind of error, as in the contract, such as NAME_TOO_LONG.
	Reason string
	// Message is what was found and what was wanted, in one sentence.
	Message string
}

func (e *ItemError) Error() string { return fmt.Sprintf("callability: %s [%s]", e.Message, e.Reason) }

var errImpossible = &ItemError{"FACTS_IMPOSSIBLE", "the facts cannot occur together under this policy"}

const (
	maxNameBytes       = 512
	maxLabels          = 64
	maxKeyBytes        = 128
	maxLabelValueBytes = 512
)

func checkName(name, what string, mayBeEmpty bool) error {
	switch {
	case name == "" && !mayBeEmpty:
		return &ItemError{"NAME_EMPTY", fmt.Sprintf("the name of the %s is empty, and has 1 to %d bytes", what, maxNameBytes)}
	case len(name) > maxNameBytes:
		return &ItemError{"NAME_TOO_LONG",
			fmt.Sprintf("the name of the %s has %d bytes, and may have %d", what, len(name), maxNameBytes)}
	case !utf8.ValidString(name):
		return &ItemError{"NAME_NOT_UTF8", fmt.Sprintf("the name of the %s is not UTF-8", what)}
	}
	return nil
}

func checkLabels(labels Labels, what string) error {
	if len(labels) > maxLabels {
		return &ItemError{"TOO_MANY_LABELS", fmt.Sprintf("the %s has %d labels, and may have %d", what, len(labels), maxLabels)}
	}
	for key, value := range labels {
		if len(key) < 1 || len(key) > maxKeyBytes {
			return &ItemError{"LABEL_KEY_SIZE",
				fmt.Sprintf("the key of a label of the %s has %d bytes, and has 1 to %d", what, len(key), maxKeyBytes)}
		}
		if len(value) > maxLabelValueBytes {
			return &ItemError{"LABEL_VALUE_TOO_LONG", fmt.Sprintf("a label of the %s has a value of %d bytes, and may have %d",
				what, len(value), maxLabelValueBytes)}
		}
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return &ItemError{"FACTS_MALFORMED", fmt.Sprintf("a label of the %s is not UTF-8", what)}
		}
	}
	return nil
}

func checkDeclared(declared Declared, what string) error {
	if len(declared) > maxLabels {
		return &ItemError{"TOO_MANY_DECLARED_FACTS",
			fmt.Sprintf("the %s has %d declared facts, and may have %d", what, len(declared), maxLabels)}
	}
	for name, value := range declared {
		if len(name) < 1 || len(name) > maxKeyBytes {
			return &ItemError{"DECLARED_FACT_NAME_SIZE",
				fmt.Sprintf("the name of a declared fact of the %s has %d bytes, and has 1 to %d", what, len(name), maxKeyBytes)}
		}
		if len(value) < 1 || len(value) > maxKeyBytes {
			return &ItemError{"DECLARED_FACT_VALUE_SIZE",
				fmt.Sprintf("a declared fact of the %s has a value of %d bytes, and has 1 to %d", what, len(value), maxKeyBytes)}
		}
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return &ItemError{"FACTS_MALFORMED", fmt.Sprintf("a declared fact of the %s is not UTF-8", what)}
		}
	}
	return nil
}
