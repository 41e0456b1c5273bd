package remote

import (
	"strconv"

	"github.com/callability/callability/clients/go"
)

func isField(name string) bool { return fieldReaders[name] != nil }

func fieldValue(name string, tool *callability.Tool) string { return fieldReaders[name](tool) }

// fieldReaders return the value of a fact that is a field of the contract, as rule files write it.
var fieldReaders = map[string]func(*callability.Tool) string{
	"server.enabled":     func(t *callability.Tool) string { return boolValue(t.Server().Facts().Enabled) },
	"server.quarantined": func(t *callability.Tool) string { return boolValue(t.Server().Facts().Quarantined) },
	"tool.config_denied": func(t *callability.Tool) string { return boolValue(t.Facts().ConfigDenied) },
	"caller.refuses":     func(t *callability.Tool) string { return strconv.FormatBool(t.Facts().CallerRefuses) },
	"approval.disabled":  func(t *callability.Tool) string { disabled, _ := approvalValues(t.Facts().Approval); return disabled },
	"approval.status":    func(t *callability.Tool) string { _, status := approvalValues(t.Facts().Approval); return status },
	"annotations.read_only": func(t *callability.Tool) string {
		return hintValue(t, func(a *callability.Annotations) bool { return isReadOnly(a) })
	},
	"annotations.destructive": func(t *callability.Tool) string {
		return hintValue(t, func(a *callability.Annotations) bool { return !isReadOnly(a) && hint(a.Destructive, true) })
	},
	"annotations.idempotent": func(t *callability.Tool) string {
		return hintValue(t, func(a *callability.Annotations) bool { return isReadOnly(a) || hint(a.Idempotent, false) })
	},
	"annotations.open_world": func(t *callability.Tool) string {
		return hintValue(t, func(a *callability.Annotations) bool { return hint(a.OpenWorld, true) })
	},
}

func boolValue(value callability.Bool) string {
	if value == callability.Unknown {
		return unknownValue
	}
	return strconv.FormatBool(value == callability.True)
}

func approvalValues(approval callability.Approval) (disabled, status string) {
	readable, record := approval.Read()
	switch {
	case !readable:
		return unknownValue, unknownValue
	case !record:
		return "false", "none"
	}
	isDisabled, found := approval.Fields()
	names := map[callability.ApprovalStatus]string{
		callability.Approved: "approved", callability.Pending: "pending", callability.Changed: "changed",
	}
	if name, known := names[found]; known {
		return boolValue(isDisabled), name
	}
	return boolValue(isDisabled), unknownValue
}

// hintValue is unknown without annotations; of a tool that is known to be read-only, two hints follow from that.
func hintValue(tool *callability.Tool, read func(*callability.Annotations) bool) string {
	annotations := tool.Facts().Annotations
	if annotations == nil {
		return unknownValue
	}
	return strconv.FormatBool(read(annotations))
}

func isReadOnly(annotations *callability.Annotations) bool { return hint(annotations.ReadOnly, false) }

func hint(given *bool, otherwise bool) bool {
	if given != nil {
		return *given
	}
	return otherwise
}
