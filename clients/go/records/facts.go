package records

import "github.com/callability/callability/clients/go/callability"

// facts are the request of the contract as protobuf writes it in JSON, without names, so that it can be decided again.
type facts struct {
	Agent       *agentFacts `json:"agent,omitempty"`
	ServerFacts serverFacts `json:"serverFacts"`
	ToolFacts   toolFacts   `json:"toolFacts"`
}

type agentFacts struct {
	Labels        *values `json:"labels,omitempty"`
	DeclaredFacts *values `json:"declaredFacts,omitempty"`
}

type serverFacts struct {
	Enabled       *bool   `json:"enabled,omitempty"`
	Quarantined   *bool   `json:"quarantined,omitempty"`
	Labels        *values `json:"labels,omitempty"`
	DeclaredFacts *values `json:"declaredFacts,omitempty"`
}

type toolFacts struct {
	ConfigDenied  *bool        `json:"configDenied,omitempty"`
	Approval      *approval    `json:"approval,omitempty"`
	CallerRefuses bool         `json:"callerRefuses,omitempty"`
	Annotations   *annotations `json:"annotations,omitempty"`
	Labels        *values      `json:"labels,omitempty"`
	DeclaredFacts *values      `json:"declaredFacts,omitempty"`
}

type approval struct {
	Record *approvalRecord `json:"record,omitempty"`
}

type approvalRecord struct {
	Disabled            *bool  `json:"disabled,omitempty"`
	Status              string `json:"status,omitempty"`
	DisabledUnspecified bool   `json:"disabledUnspecified,omitempty"`
}

type annotations struct {
	ReadOnly    *bool `json:"readOnly,omitempty"`
	Destructive *bool `json:"destructive,omitempty"`
	Idempotent  *bool `json:"idempotent,omitempty"`
	OpenWorld   *bool `json:"openWorld,omitempty"`
}

type values struct {
	Values map[string]string `json:"values,omitempty"`
}

func factsOf(agent *callability.Agent, tool *callability.Tool) facts {
	server, of := tool.Server().Facts(), tool.Facts()
	found := facts{
		ServerFacts: serverFacts{
			Enabled: truth(server.Enabled), Quarantined: truth(server.Quarantined),
			Labels: valuesOf(server.Labels), DeclaredFacts: valuesOf(server.Declared),
		},
		ToolFacts: toolFacts{
			ConfigDenied: truth(of.ConfigDenied), Approval: approvalOf(of.Approval), CallerRefuses: of.CallerRefuses,
			Labels: valuesOf(of.Labels), DeclaredFacts: valuesOf(of.Declared),
		},
	}
	if of.Annotations != nil {
		hints := annotations(*of.Annotations)
		found.ToolFacts.Annotations = &hints
	}
	if known, is := agent.Facts(); is {
		found.Agent = &agentFacts{valuesOf(known.Labels), valuesOf(known.Declared)}
	}
	return found
}

var approvalNames = map[callability.ApprovalStatus]string{
	callability.ApprovalUnknown:  "",
	callability.ApprovalApproved: "APPROVAL_STATUS_APPROVED",
	callability.ApprovalPending:  "APPROVAL_STATUS_PENDING",
	callability.ApprovalChanged:  "APPROVAL_STATUS_CHANGED",
}

func approvalOf(given callability.Approval) *approval {
	readable, isRecord := given.Known()
	if !readable {
		return nil
	}
	if !isRecord {
		return &approval{}
	}
	disabled, status := given.Fields()
	name, known := approvalNames[status]
	if !known {
		name = "APPROVAL_STATUS_UNSPECIFIED"
	}
	return &approval{&approvalRecord{truth(disabled), name, disabled >= callability.Neither}}
}

func truth(value callability.Bool) *bool {
	if value != callability.True && value != callability.False {
		return nil
	}
	known := value == callability.True
	return &known
}

func valuesOf[M ~map[string]string](given M) *values {
	if given == nil {
		return nil
	}
	return &values{given}
}
