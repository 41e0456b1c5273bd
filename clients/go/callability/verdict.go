package callability

import (
	"maps"

	"github.com/callability/callability/clients/go/internal/enum"
)

// A Status says why a tool can or cannot be called. Its numbers are those of the contract.
type Status uint8

// The statuses of a tool. Only a tool with [StatusCallable] is called.
const (
	// StatusUnspecified: there is no verdict.
	StatusUnspecified Status = iota
	// StatusServerDisabled: the server of the tool is disabled.
	StatusServerDisabled
	// StatusDisabledByConfig: the operator's config denies the tool, and no user can override that.
	StatusDisabledByConfig
	// StatusServerQuarantined: the server of the tool is held for review.
	StatusServerQuarantined
	// StatusDisabledByUser: the user disabled the tool.
	StatusDisabledByUser
	// StatusPendingApproval: the tool waits for a person's review.
	StatusPendingApproval
	// StatusDisabledUnknown: the tool is held back, and why could not be determined.
	StatusDisabledUnknown
	// StatusCallable: the tool can be called.
	StatusCallable
)

var statusNames = [...]string{"unspecified", "server_disabled", "disabled_by_config", "server_quarantined",
	"disabled_by_user", "pending_approval", "disabled_unknown", "callable"}

func (s Status) String() string { return enum.Name(s, statusNames[:]) }

// MarshalText returns the word that String returns.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a word that String returns. A number of a later version is an error.
func (s *Status) UnmarshalText(text []byte) error { return enum.Parse(s, text, statusNames[:]) }

// statusOf is a status by its number in the contract; StatusUnspecified for one of a later version.
func statusOf(number int32) Status {
	if number < 1 || number > int32(StatusCallable) {
		return StatusUnspecified
	}
	return Status(number)
}

// LiftedBy says who can lift a status.
type LiftedBy uint8

// Who can lift a status.
const (
	// LiftedByUnspecified: there is no verdict.
	LiftedByUnspecified LiftedBy = iota
	// LiftedByUser: the user.
	LiftedByUser
	// LiftedByOperator: the operator, and not the user.
	LiftedByOperator
	// LiftedByUndetermined: it is not known who.
	LiftedByUndetermined
	// LiftedByNone: nobody needs to.
	LiftedByNone
)

var liftedByNames = [...]string{"unspecified", "user", "operator", "undetermined", "none"}

func (l LiftedBy) String() string { return enum.Name(l, liftedByNames[:]) }

// MarshalText returns the word that String returns.
func (l LiftedBy) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads a word that String returns. A number of a later version is an error.
func (l *LiftedBy) UnmarshalText(text []byte) error { return enum.Parse(l, text, liftedByNames[:]) }

// Retry says when the same call may succeed without a change.
type Retry uint8

// When a call may succeed.
const (
	// RetryUnspecified: there is no verdict.
	RetryUnspecified Retry = iota
	// RetryNever: not until somebody lifts the status.
	RetryNever
	// RetryLater: later, without anybody's help.
	RetryLater
	// RetryNow: call it.
	RetryNow
)

var retryNames = [...]string{"unspecified", "never", "later", "now"}

func (r Retry) String() string { return enum.Name(r, retryNames[:]) }

// MarshalText returns the word that String returns.
func (r Retry) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a word that String returns. A number of a later version is an error.
func (r *Retry) UnmarshalText(text []byte) error { return enum.Parse(r, text, retryNames[:]) }

// A Verdict is the answer about one tool. The zero Verdict is no answer: the tool is not callable, and its text withheld.
type Verdict struct {
	policy *Policy
	tool   *toolPoints
	agent  *agentPoints
	number int32
}

// Callable reports whether the tool can be called now.
func (v Verdict) Callable() bool { return v.Status() == StatusCallable }

// Status is the answer. An item with an error and a status of a later version have [StatusDisabledUnknown].
func (v Verdict) Status() Status {
	if v.policy == nil {
		return StatusUnspecified
	}
	if v.number < 0 {
		return StatusDisabledUnknown
	}
	return v.policy.verdicts[v.number].status
}

// Rule is the id of the rule that decided, or, if the verdict is undetermined, of the rule that was reached.
func (v Verdict) Rule() string {
	if v.policy == nil || v.number < 0 {
		return ""
	}
	return v.policy.tools().rules[v.policy.verdicts[v.number].rule].id
}

// Undetermined reports whether a rule was reached whose condition depends on an unknown fact.
func (v Verdict) Undetermined() bool {
	return v.policy != nil && v.number >= 0 && v.policy.verdicts[v.number].undetermined
}

// WithholdText reports whether text from the upstream must neither be shown nor searched.
func (v Verdict) WithholdText() bool {
	return v.policy == nil || v.number < 0 || v.policy.verdicts[v.number].withhold
}

// LiftedBy says who can lift the status.
func (v Verdict) LiftedBy() LiftedBy {
	if v.policy == nil {
		return LiftedByUnspecified
	}
	if v.number < 0 {
		return LiftedByUndetermined
	}
	return v.policy.verdicts[v.number].liftedBy
}

// Retry says when the same call may succeed without a change. An undetermined verdict has [RetryLater] only if some values
// that unknown facts can have by themselves make the tool callable. A tool with an error has [RetryNever].
func (v Verdict) Retry() Retry {
	if v.policy == nil {
		return RetryUnspecified
	}
	if v.number < 0 || v.Undetermined() && !v.policy.later.opens(v) {
		return RetryNever
	}
	return v.policy.verdicts[v.number].retry
}

// Unread lists the unknown facts that keep an undetermined verdict from being decided, in the order of the facts.
func (v Verdict) Unread() []string {
	if v.policy == nil {
		return nil
	}
	var found []string
	facts := v.policy.tools().facts
	v.eachUnread(func(place int32) { found = append(found, facts[place].name) })
	return found
}

func (v Verdict) eachUnread(visit func(fact int32)) {
	if !v.Undetermined() {
		return
	}
	for _, each := range v.policy.unreadStarts[v.policy.verdicts[v.number].rule] {
		if v.policy.unread.walk(each.start, v.tool.points, v.agent.points) == 1 {
			visit(each.fact)
		}
	}
}

// Revision is the revision of the policy that decided; empty without a policy.
func (v Verdict) Revision() string { return v.policy.Revision() }

// Err says what is wrong with the tool, its server or the agent, if it could not be judged: an *[ItemError], or
// [ErrNoPolicy].
func (v Verdict) Err() error {
	switch {
	case v.policy == nil:
		return ErrNoPolicy
	case v.tool.err != nil:
		return v.tool.err
	case v.agent.err != nil:
		return v.agent.err
	case v.number < 0:
		return errImpossible
	}
	return nil
}

// Words are what to say about the verdict: those of its rule where they apply, those of its status otherwise.
// They are empty for a tool that is callable or has an error.
func (v Verdict) Words() Words {
	found := v.words()
	found.Phrases = maps.Clone(found.Phrases)
	return found
}

// words are those of the policy.
func (v Verdict) words() Words {
	if v.policy == nil || v.number < 0 {
		return Words{}
	}
	found := v.policy.verdicts[v.number]
	if own := v.policy.ruleWords[found.rule]; own != nil && !found.undetermined {
		return *own
	}
	return v.policy.statusWords[found.place]
}

// Words are sentences of the policy's author about a tool, with placeholders in braces.
type Words struct {
	// Status is the status that they are for.
	Status Status
	// Rule is the id of the rule whose own words they are; empty for those of the status.
	Rule string
	// Remediation is what the agent tells its user about a tool that it found.
	Remediation string
	// Rejection is what the agent reads when it calls the tool.
	Rejection string
	// Phrases are the neutral phrases of the actions that the rule file declares, by placeholder without its braces.
	Phrases map[string]string
}

// Answer returns the verdict with its words and the locks that remain, as the adapter takes them for both local and remote
// decisions.
func (v Verdict) Answer() Answer {
	found := v.answerOfMany()
	found.Words, found.Remaining = v.Words(), v.Remaining()
	return found
}

// answer refers to words and paths of the policy.
func (v Verdict) answer() Answer {
	found := v.answerOfMany()
	found.Remaining = v.remaining()
	return found
}

// answerOfMany is the answer without the locks that remain, which only a rejection says.
func (v Verdict) answerOfMany() Answer {
	status := v.Status()
	if v.number < 0 || v.policy != nil && v.policy.verdicts[v.number].later {
		// The adapter takes StatusDisabledUnknown as decided by the policy, and then gives the refusal of the proxy as the reason.
		status = StatusUnspecified
	}
	return Answer{
		Status:       status,
		Rule:         v.Rule(),
		Undetermined: v.Undetermined(),
		Retry:        v.Retry(),
		WithholdText: v.WithholdText(),
		Unread:       v.Unread(),
		Words:        v.words(),
	}
}

// An Answer is a verdict with its words, wherever it was decided. The zero Answer holds the tool back.
type Answer struct {
	// Status is StatusUnspecified for an item with an error and for a status of a later version.
	Status       Status
	Rule         string
	Undetermined bool
	Retry        Retry
	WithholdText bool
	Unread       []string
	Words        Words
	// Remaining is what still locks the tool once the lock of the status is lifted; the zero Path if nothing does, or if it is
	// not known.
	Remaining Path
}
