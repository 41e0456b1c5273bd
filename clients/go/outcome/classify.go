package outcome

import (
	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/internal/link"
)

// ClassifyLoad decides how the load of a server's tools ended. Without a policy, and for a status of a later version, the
// answer has [LoadUnspecified], which counts as permanent.
func ClassifyLoad(policy *callability.Policy, facts LoadFacts) LoadAnswer {
	decided, ok := link.Decide(policy, link.Loads, facts.values())
	if !ok {
		return LoadAnswer{}
	}
	found := LoadAnswer{
		Rule:         decided.Rule,
		Undetermined: decided.Undetermined,
		LiftedBy:     callability.LiftedBy(decided.LiftedBy),
		Retry:        callability.Retry(decided.Retry),
		Message:      decided.Message,
	}
	if decided.Status <= int32(LoadPermanent) {
		found.Status = LoadStatus(decided.Status)
	}
	if decided.HasWords {
		found.WordsStatus = found.Status
	}
	return found
}

// ClassifyEnable decides how an enable of a server ended. Without a policy, and for a status of a later version, the answer
// has [EnableUnspecified], which counts as a failed connection.
func ClassifyEnable(policy *callability.Policy, facts EnableFacts) EnableAnswer {
	decided, ok := link.Decide(policy, link.Enables, facts.values())
	if !ok {
		return EnableAnswer{}
	}
	found := EnableAnswer{
		Rule:         decided.Rule,
		Undetermined: decided.Undetermined,
		LiftedBy:     callability.LiftedBy(decided.LiftedBy),
		Retry:        callability.Retry(decided.Retry),
		Error:        decided.Failed,
		ToolsChanged: decided.ToolsChanged > 0,
		Message:      decided.Message,
	}
	if decided.Status <= int32(EnableConnectFailed) {
		found.Status = EnableStatus(decided.Status)
	}
	if decided.Entry <= int32(EntryRolledBack) {
		found.Entry = EnableEntry(decided.Entry)
	}
	if decided.HasWords {
		found.WordsStatus = found.Status
	}
	return found
}
