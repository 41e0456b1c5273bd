package callability

import "slices"

// An outcomeRules decides how a load or an enable ended.
type outcomeRules struct {
	set     *ruleSet
	diagram *walkable
	axes    []axisPoints
}

// An outcome is what was decided, with its words.
type outcome struct {
	status       status
	rule         string
	undetermined bool
	// said are the words, if there are any.
	said    bool
	message string
}

func newOutcomeRules(set *ruleSet) *outcomeRules {
	found := &outcomeRules{set: set, diagram: newWalkable(&set.diagram, set.axes, len(set.verdicts))}
	for _, each := range set.axes {
		found.axes = append(found.axes, newAxisPoints(each, set.facts))
	}
	return found
}

// decide returns false for facts that cannot occur together under the policy, which no proxy sends.
func (o *outcomeRules) decide(values map[string]string) (outcome, bool) {
	readings := make([]int32, len(o.set.facts))
	for place := range o.set.facts {
		readings[place] = o.set.facts[place].textReading(values[o.set.facts[place].name])
	}
	points := make([]int32, len(o.axes))
	for place := range o.axes {
		if points[place] = o.axes[place].point(readings); points[place] < 0 {
			return outcome{}, false
		}
	}
	verdict := o.set.verdicts[o.diagram.walk(o.diagram.root(), points, nil)]
	rule := o.set.rules[verdict.rule]
	found := outcome{status: o.set.statuses[verdict.status], rule: rule.id, undetermined: verdict.undetermined}
	if !verdict.undetermined && len(rule.words) > 0 {
		found.said, found.message = true, rule.words[0]
		return found, true
	}
	place := slices.IndexFunc(o.set.words, func(each statusWords) bool { return each.status == verdict.status })
	if place >= 0 {
		found.said, found.message = true, o.set.words[place].texts[0]
	}
	return found, true
}

// ClassifyLoad decides how the load of a server's tools ended. Without a policy, and for a status of a later version, the
// answer has LoadUnspecified, which counts as permanent.
func (p *Policy) ClassifyLoad(facts LoadFacts) LoadAnswer {
	if p == nil || p.payload == nil {
		return LoadAnswer{}
	}
	decided, ok := p.loads().decide(facts.values())
	if !ok {
		return LoadAnswer{}
	}
	found := LoadAnswer{
		Rule:         decided.rule,
		Undetermined: decided.undetermined,
		LiftedBy:     LiftedBy(decided.status.liftedBy),
		Retry:        Retry(decided.status.retry),
		Message:      decided.message,
	}
	if number := decided.status.number; number <= int32(LoadPermanent) {
		found.Status = LoadStatus(number)
	}
	if decided.said {
		found.WordsStatus = found.Status
	}
	return found
}

// ClassifyEnable decides how an enable of a server ended. Without a policy, and for a status of a later version, the answer
// has EnableUnspecified, which counts as a failed connection.
func (p *Policy) ClassifyEnable(facts EnableFacts) EnableAnswer {
	if p == nil || p.payload == nil {
		return EnableAnswer{}
	}
	decided, ok := p.enables().decide(facts.values())
	if !ok {
		return EnableAnswer{}
	}
	found := EnableAnswer{
		Rule:         decided.rule,
		Undetermined: decided.undetermined,
		LiftedBy:     LiftedBy(decided.status.liftedBy),
		Retry:        Retry(decided.status.retry),
		Error:        decided.status.failed,
		ToolsChanged: decided.status.toolsChanged > 0,
		Message:      decided.message,
	}
	if number := decided.status.number; number <= int32(ConnectFailed) {
		found.Status = EnableStatus(number)
	}
	if entry := decided.status.entry; entry <= int32(EntryRolledBack) {
		found.Entry = EnableEntry(entry)
	}
	if decided.said {
		found.WordsStatus = found.Status
	}
	return found
}
