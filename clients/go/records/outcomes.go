package records

import (
	"strings"
	"time"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/outcome"
)

// RecordLoad records how the load of a server's tools ended, as the policy classified it. Without a policy there is nothing
// to record.
func (r *Recorder) RecordLoad(
	policy *callability.Policy, server string, facts outcome.LoadFacts, answer outcome.LoadAnswer,
) {
	if policy == nil || !r.all && answer.Status == outcome.LoadAvailable {
		return
	}
	r.opened().append(encodeOutcome("load", "", server, &judged{
		Facts: struct {
			Signals loadSignals `json:"signals"`
		}{loadSignals{
			Phase: enumName("LOAD_PHASE_", facts.Phase.String()), Failure: enumName("LOAD_FAILURE_", facts.Failure.String()),
			HTTPStatus: facts.HTTPStatus, TimeoutSignature: facts.TimeoutSignature, InSession: facts.InSession,
			TriesLeft: facts.TriesLeft, RetryScheduled: facts.RetryScheduled,
		}},
		Revision: policy.Revision(), Semantics: callability.Semantics, Status: answer.Status.String(), Rule: answer.Rule,
		Undetermined: answer.Undetermined, LiftedBy: answer.LiftedBy.String(), Retry: answer.Retry.String(),
	}))
}

// RecordEnable records how an enable of a server by an agent ended, as the policy classified it. Without a policy there is
// nothing to record.
func (r *Recorder) RecordEnable(
	policy *callability.Policy, agent *callability.Agent, server string, facts outcome.EnableFacts, answer outcome.EnableAnswer,
) {
	good := answer.Status == outcome.EnableEnabled || answer.Status == outcome.EnableAlreadyEnabled
	if policy == nil || !r.all && good {
		return
	}
	known, _ := agent.Facts()
	r.opened().append(encodeOutcome("enable", known.Name, server, &judged{
		Facts: struct {
			Facts enableFacts `json:"facts"`
		}{enableFacts{
			Known: truth(facts.Known), WasConnected: truth(facts.WasConnected),
			Credentials:   enumName("ENABLE_CREDENTIALS_", facts.Credentials.String()),
			Authorization: enumName("ENABLE_AUTHORIZATION_", facts.Authorization.String()),
			Ended:         enumName("ENABLE_END_", facts.Ended.String()), CallableTools: truth(facts.CallableTools),
			LoadStatus: enumName("LOAD_STATUS_", facts.Load.String()), DialogExpired: truth(facts.DialogExpired),
		}},
		Revision: policy.Revision(), Semantics: callability.Semantics, Status: answer.Status.String(), Rule: answer.Rule,
		Undetermined: answer.Undetermined, LiftedBy: answer.LiftedBy.String(), Retry: answer.Retry.String(),
	}))
}

func encodeOutcome(question, agent, server string, answer *judged) []byte {
	return asciiMembers(decision{
		Kind: "decision", Time: time.Now().UTC().Format(timeLayout), ID: newID(), By: "client", Question: question,
		Agent: cut(agent), Server: cut(server), judged: answer, Ended: "decided",
	})
}

type loadSignals struct {
	Phase            string `json:"phase,omitempty"`
	Failure          string `json:"failure,omitempty"`
	HTTPStatus       uint32 `json:"httpStatus,omitempty"`
	TimeoutSignature bool   `json:"timeoutSignature,omitempty"`
	InSession        bool   `json:"inSession,omitempty"`
	TriesLeft        uint32 `json:"triesLeft,omitempty"`
	RetryScheduled   bool   `json:"retryScheduled,omitempty"`
}

type enableFacts struct {
	Known         *bool  `json:"known,omitempty"`
	WasConnected  *bool  `json:"wasConnected,omitempty"`
	Credentials   string `json:"credentials,omitempty"`
	Authorization string `json:"authorization,omitempty"`
	Ended         string `json:"ended,omitempty"`
	CallableTools *bool  `json:"callableTools,omitempty"`
	LoadStatus    string `json:"loadStatus,omitempty"`
	DialogExpired *bool  `json:"dialogExpired,omitempty"`
}

// enumName is the name of a value in the contract; empty for one that is not known, such as a number without a word.
func enumName(prefix, name string) string {
	if name == "unknown" || name == "unspecified" || strings.HasSuffix(name, ")") {
		return ""
	}
	return prefix + strings.ToUpper(name)
}
