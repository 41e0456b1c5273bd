// Package contractjson reads requests in the contract's own JSON, for tests that replay vectors.
package contractjson

import "github.com/callability/callability/clients/go/callability"

// A Request is a CheckToolRequest, or an ExplainToolRequest.
type Request struct {
	Agent       *Agent      `json:"agent"`
	Server      string      `json:"server"`
	ServerFacts ServerFacts `json:"serverFacts"`
	Tool        string      `json:"tool"`
	ToolFacts   ToolFacts   `json:"toolFacts"`
}

// An Agent is the agent of a request.
type Agent struct {
	Name          string  `json:"name"`
	Labels        *Values `json:"labels"`
	DeclaredFacts *Values `json:"declaredFacts"`
}

// Values are the values of labels or declared facts.
type Values struct {
	Values map[string]string `json:"values"`
}

// ServerFacts are the facts of a server.
type ServerFacts struct {
	Enabled       *bool   `json:"enabled"`
	Quarantined   *bool   `json:"quarantined"`
	Labels        *Values `json:"labels"`
	DeclaredFacts *Values `json:"declaredFacts"`
}

// ToolFacts are the facts of a tool.
type ToolFacts struct {
	ConfigDenied  *bool        `json:"configDenied"`
	Approval      *Approval    `json:"approval"`
	CallerRefuses bool         `json:"callerRefuses"`
	Annotations   *Annotations `json:"annotations"`
	Labels        *Values      `json:"labels"`
	DeclaredFacts *Values      `json:"declaredFacts"`
}

// Approval is what was read about the approval of a tool.
type Approval struct {
	Record *struct {
		Disabled            *bool `json:"disabled"`
		DisabledUnspecified bool  `json:"disabledUnspecified"`
		// Status is the name of a status, or the number of one of a later version.
		Status any `json:"status"`
	} `json:"record"`
}

// Annotations are the claims of an upstream.
type Annotations struct {
	ReadOnly    *bool `json:"readOnly"`
	Destructive *bool `json:"destructive"`
	Idempotent  *bool `json:"idempotent"`
	OpenWorld   *bool `json:"openWorld"`
}

// Parse reads a request about a tool. A field that it does not know is an error.
func Parse(text []byte) (*Request, error) { return parsed[Request](text) }

// Handles returns what the request is about, ready for Decide.
func (r *Request) Handles() (*callability.Agent, *callability.Tool) {
	server := callability.NewServer(r.Server, r.ServerFacts.facts())
	return r.Agent.handle(), server.Tool(r.Tool, r.ToolFacts.facts())
}

func (a *Agent) handle() *callability.Agent {
	if a == nil {
		return nil
	}
	return callability.NewAgent(callability.AgentFacts{
		Name: a.Name, Labels: a.Labels.labels(), Declared: a.DeclaredFacts.declared(),
	})
}

func (f ServerFacts) facts() callability.ServerFacts {
	return callability.ServerFacts{
		Enabled:     known(f.Enabled),
		Quarantined: known(f.Quarantined),
		Labels:      f.Labels.labels(),
		Declared:    f.DeclaredFacts.declared(),
	}
}

func (f ToolFacts) facts() callability.ToolFacts {
	found := callability.ToolFacts{
		ConfigDenied:  known(f.ConfigDenied),
		CallerRefuses: f.CallerRefuses,
		Labels:        f.Labels.labels(),
		Declared:      f.DeclaredFacts.declared(),
	}
	if f.Annotations != nil {
		converted := callability.Annotations(*f.Annotations)
		found.Annotations = &converted
	}
	if f.Approval != nil {
		found.Approval = callability.NoRecord()
		if record := f.Approval.Record; record != nil {
			disabled := known(record.Disabled)
			if record.DisabledUnspecified && record.Disabled == nil {
				disabled = callability.Neither
			}
			found.Approval = callability.Record(disabled, statusOf(record.Status))
		}
	}
	return found
}

var statuses = map[string]callability.ApprovalStatus{
	"APPROVAL_STATUS_APPROVED": callability.ApprovalApproved,
	"APPROVAL_STATUS_PENDING":  callability.ApprovalPending,
	"APPROVAL_STATUS_CHANGED":  callability.ApprovalChanged,
}

func statusOf(value any) callability.ApprovalStatus {
	if value == nil {
		return callability.ApprovalUnknown
	}
	name, _ := value.(string)
	if found, known := statuses[name]; known {
		return found
	}
	return callability.ApprovalOther
}

func known(value *bool) callability.Bool {
	if value == nil {
		return callability.Unknown
	}
	return callability.Known(*value)
}

func (v *Values) labels() callability.Labels {
	if v == nil {
		return nil
	}
	if v.Values == nil {
		return callability.NoLabels()
	}
	return v.Values
}

func (v *Values) declared() callability.Declared {
	if v == nil {
		return nil
	}
	return v.Values
}
