package callability

import (
	"maps"
	"slices"
	"strings"
)

// A Vocabulary is what a policy can read and name: compare a proxy's config with it at start, and after each change of the
// policy. [Policy.Check] does so for facts.
type Vocabulary struct {
	// Labels are the labels that the rule file declares, in its order.
	Labels []DeclaredLabel
	// Facts are the facts that the rule file declares, in its order.
	Facts []DeclaredFact
	// Reads are the facts that rules read, in the order of the facts, such as "approval.status".
	Reads []string
	// Actions are what words may name.
	Actions []Action
}

// A DeclaredLabel is a label by its name in rules, such as "server.label.environment", and the values that it can have.
type DeclaredLabel struct {
	Fact   string
	Values []string
}

// A DeclaredFact is a fact of a server, a tool or an agent, which Subject names. An asserted one is never unknown: it then
// has its default. Owner can change it by Action.
type DeclaredFact struct {
	Name     string
	Subject  string
	Values   []string
	Default  string
	Asserted bool
	Owner    LiftedBy
	Action   string
}

// An Action is what somebody can do about a lock: who can, the fact that it changes if it changes one, and a neutral phrase.
type Action struct {
	Name   string
	Owner  LiftedBy
	Fact   string
	Phrase string
}

// A Fault is what is wrong with a fact that a proxy sends.
type Fault string

// The faults.
const (
	// FaultUndeclaredLabel: the policy does not declare the label, so that no rule reads it.
	FaultUndeclaredLabel Fault = "undeclared_label"
	// FaultUndeclaredValue: the policy does not declare this value. Every rule that reads the label or fact is undetermined,
	// unless it is an asserted fact, which then has its default.
	FaultUndeclaredValue Fault = "undeclared_value"
	// FaultUndeclaredFact: the policy does not declare the fact of this server, tool or agent, so that no rule reads it.
	FaultUndeclaredFact Fault = "undeclared_fact"
	// FaultMissingGroup: rules read the group, and the facts leave it out: every rule that reads it is undetermined.
	FaultMissingGroup Fault = "missing_group"
	// FaultMissingFact: rules read the declared fact, and the facts leave it out: every rule that reads it is undetermined.
	FaultMissingFact Fault = "missing_fact"
)

// A Finding is a fact that the policy cannot read as intended. Fact is as rules write it, or a group that is missing, such
// as "annotations". Near is the nearest name or value that the policy declares; empty if there is none.
type Finding struct {
	Fault Fault
	Fact  string
	Value string
	Near  string
}

// Facts are [ServerFacts], [ToolFacts] or [AgentFacts].
type Facts interface{ sent() sentFacts }

// sentFacts are what facts hold by name, and whether each group is there.
type sentFacts struct {
	subject  int32
	labels   Labels
	declared Declared
	groups   []sentGroup
}

type sentGroup struct {
	name  string
	known bool
}

func (f ServerFacts) sent() sentFacts {
	return sentFacts{subjectServer, f.Labels, f.Declared, []sentGroup{
		{"server.enabled", f.Enabled != Unknown}, {"server.quarantined", f.Quarantined != Unknown},
		{"server.label", f.Labels != nil},
	}}
}

func (f ToolFacts) sent() sentFacts {
	readable, _ := f.Approval.Known()
	return sentFacts{subjectTool, f.Labels, f.Declared, []sentGroup{
		{"tool.config_denied", f.ConfigDenied != Unknown}, {"approval", readable}, {"annotations", f.Annotations != nil},
		{"tool.label", f.Labels != nil},
	}}
}

func (f AgentFacts) sent() sentFacts {
	return sentFacts{subjectAgent, f.Labels, f.Declared, []sentGroup{{"agent.label", f.Labels != nil}}}
}

var subjectNames = map[int32]string{subjectServer: "server", subjectTool: "tool", subjectAgent: "agent"}

// Vocabulary is what the policy can read and name; empty without a policy. It belongs to the caller.
func (p *Policy) Vocabulary() Vocabulary {
	var found Vocabulary
	if p == nil || p.payload == nil {
		return found
	}
	set := p.tools()
	for number := range set.facts {
		each := &set.facts[number]
		switch each.kind {
		case factLabel:
			values := slices.DeleteFunc(slices.Clone(each.values), func(value string) bool { return value == noLabel })
			found.Labels = append(found.Labels, DeclaredLabel{each.name, values})
		case factDeclared:
			found.Facts = append(found.Facts, DeclaredFact{
				Name: each.name, Subject: subjectNames[each.subject], Values: slices.Clone(each.values),
				Default: each.values[each.defaultValue], Asserted: each.asserted,
				Owner: LiftedBy(each.changedBy), Action: each.action,
			})
		}
	}
	found.Reads = set.reads()
	for _, each := range p.payload.actions {
		found.Actions = append(found.Actions, Action{each.name, LiftedBy(each.owner), each.fact, each.phrase})
	}
	return found
}

// reads are the names of the facts that rules read, in the order of the facts.
func (s *ruleSet) reads() []string {
	read := map[int32]bool{}
	for _, each := range s.rules {
		for _, fact := range s.factsRead(each.condition) {
			read[fact] = true
		}
	}
	var names []string
	for _, number := range slices.Sorted(maps.Keys(read)) {
		names = append(names, s.facts[number].name)
	}
	return names
}

// Reads reports whether rules read a fact, such as "approval.status", or any fact of a group, such as "approval" or
// "agent.label". A proxy that never sends a fact should refuse a policy that reads it: every rule that does so would be
// undetermined.
func (p *Policy) Reads(fact string) bool {
	return slices.ContainsFunc(p.Vocabulary().Reads, func(each string) bool { return isIn(each, fact) })
}

func isIn(fact, group string) bool { return fact == group || strings.HasPrefix(fact, group+".") }

// Check compares the facts of a server, a tool or an agent with what the policy declares and reads, so that a typo in a
// label or a value is found at start. What it finds opens nothing by itself, but no rule sees what was meant.
func (p *Policy) Check(facts Facts) []Finding {
	vocabulary, sent := p.Vocabulary(), facts.sent()
	subject := subjectNames[sent.subject]
	var found []Finding
	for _, group := range sent.groups {
		if !group.known && slices.ContainsFunc(vocabulary.Reads, func(fact string) bool { return isIn(fact, group.name) }) {
			found = append(found, Finding{Fault: FaultMissingGroup, Fact: group.name})
		}
	}
	found = append(found, vocabulary.checkLabels(subject+".label.", sent.labels)...)
	return append(found, vocabulary.checkDeclared(subject, sent.declared)...)
}

func (v Vocabulary) checkLabels(prefix string, labels Labels) []Finding {
	declared := map[string][]string{}
	for _, each := range v.Labels {
		if key, ours := strings.CutPrefix(each.Fact, prefix); ours {
			declared[key] = each.Values
		}
	}
	var found []Finding
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		values, known := declared[key]
		switch {
		case !known:
			near := nearestDeclared(key, slices.Collect(maps.Keys(declared)))
			found = append(found, Finding{FaultUndeclaredLabel, prefix + key, labels[key], near})
		case !slices.Contains(values, labels[key]):
			found = append(found, Finding{FaultUndeclaredValue, prefix + key, labels[key], nearestDeclared(labels[key], values)})
		}
	}
	return found
}

func (v Vocabulary) checkDeclared(subject string, declared Declared) []Finding {
	var found []Finding
	names := map[string]DeclaredFact{}
	for _, each := range v.Facts {
		if each.Subject == subject {
			names[each.Name] = each
		}
	}
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		fact, known := names[name]
		switch value := declared[name]; {
		case !known:
			near := nearestDeclared(name, slices.Collect(maps.Keys(names)))
			found = append(found, Finding{FaultUndeclaredFact, name, value, near})
		case !slices.Contains(fact.Values, value):
			found = append(found, Finding{FaultUndeclaredValue, name, value, nearestDeclared(value, fact.Values)})
		}
	}
	for _, each := range v.Facts {
		if _, given := declared[each.Name]; each.Subject == subject && !given && !each.Asserted && slices.Contains(v.Reads, each.Name) {
			found = append(found, Finding{Fault: FaultMissingFact, Fact: each.Name})
		}
	}
	return found
}

// nearestDeclared is the nearest declared word; "prod" is near "production" too.
func nearestDeclared(found string, declared []string) string {
	if near := nearest(found, declared); len(near) > 0 {
		return near[0]
	}
	longer := slices.DeleteFunc(slices.Clone(declared), func(word string) bool { return found == "" || !strings.HasPrefix(word, found) })
	if len(longer) == 1 {
		return longer[0]
	}
	return ""
}
