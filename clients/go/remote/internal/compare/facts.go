package main

import (
	"github.com/callability/callability/clients/go/callability"
	v1 "github.com/callability/callability/clients/go/remote/v1"
)

func agentOf(agent *v1.Agent) *callability.Agent {
	if agent == nil {
		return nil
	}
	return callability.NewAgent(callability.AgentFacts{
		Name: agent.GetName(), Labels: labels(agent.GetLabels()), Declared: agent.GetDeclaredFacts().GetValues(),
	})
}

func serverFacts(facts *v1.ServerFacts) callability.ServerFacts {
	if facts == nil {
		return callability.ServerFacts{}
	}
	return callability.ServerFacts{
		Enabled: truth(facts.Enabled), Quarantined: truth(facts.Quarantined), Labels: labels(facts.GetLabels()),
		Declared: facts.GetDeclaredFacts().GetValues(),
	}
}

func toolFacts(facts *v1.ToolFacts) callability.ToolFacts {
	if facts == nil {
		return callability.ToolFacts{}
	}
	found := callability.ToolFacts{
		ConfigDenied: truth(facts.ConfigDenied), Approval: approval(facts.GetApproval()), CallerRefuses: facts.GetCallerRefuses(),
		Labels: labels(facts.GetLabels()), Declared: facts.GetDeclaredFacts().GetValues(),
	}
	if hints := facts.GetAnnotations(); hints != nil {
		found.Annotations = &callability.Annotations{
			ReadOnly: hints.ReadOnly, Destructive: hints.Destructive, Idempotent: hints.Idempotent, OpenWorld: hints.OpenWorld,
		}
	}
	return found
}

func approval(message *v1.Approval) callability.Approval {
	if message == nil {
		return callability.Approval{}
	}
	record := message.GetRecord()
	if record == nil {
		return callability.NoRecord()
	}
	status := callability.ApprovalUnknown
	if number := record.GetStatus(); number > 0 && number <= v1.ApprovalStatus_APPROVAL_STATUS_CHANGED {
		status = callability.ApprovalStatus(number)
	} else if record.Status != nil {
		status = callability.ApprovalOther
	}
	disabled := truth(record.Disabled)
	if record.GetDisabledUnspecified() && record.Disabled == nil {
		disabled = callability.Neither
	}
	return callability.Record(disabled, status)
}

func truth(value *bool) callability.Bool {
	if value == nil {
		return callability.Unknown
	}
	return callability.Known(*value)
}

// labels are nil only for a group that is not there.
func labels(message *v1.Labels) callability.Labels {
	if message == nil {
		return nil
	}
	if message.GetValues() == nil {
		return callability.NoLabels()
	}
	return message.GetValues()
}
