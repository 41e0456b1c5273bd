package callability

import (
	"slices"

	"github.com/callability/callability/clients/go/internal/link"
)

// An outcomeRules decides how a load or an enable ended.
type outcomeRules struct {
	set     *ruleSet
	diagram *walkable
	axes    []axisPoints
}

func newOutcomeRules(set *ruleSet) *outcomeRules {
	found := &outcomeRules{set: set, diagram: newWalkable(&set.diagram, set.axes, len(set.verdicts))}
	for _, each := range set.axes {
		found.axes = append(found.axes, newAxisPoints(each, set.facts))
	}
	return found
}

// decide returns false for facts that cannot occur together under the policy, which no proxy sends.
func (o *outcomeRules) decide(values map[string]string) (link.Outcome, bool) {
	readings := make([]int32, len(o.set.facts))
	for place := range o.set.facts {
		readings[place] = o.set.facts[place].textReading(values[o.set.facts[place].name])
	}
	points := make([]int32, len(o.axes))
	for place := range o.axes {
		if points[place] = o.axes[place].point(readings); points[place] < 0 {
			return link.Outcome{}, false
		}
	}
	verdict := o.set.verdicts[o.diagram.walk(o.diagram.root(), points, nil)]
	rule, status := o.set.rules[verdict.rule], o.set.statuses[verdict.status]
	found := link.Outcome{
		Status: status.number, LiftedBy: status.liftedBy, Retry: status.retry, Entry: status.entry, Failed: status.failed,
		ToolsChanged: status.toolsChanged, Rule: rule.id, Undetermined: verdict.undetermined,
	}
	if !verdict.undetermined && len(rule.words) > 0 {
		found.HasWords, found.Message = true, rule.words[0]
		return found, true
	}
	place := slices.IndexFunc(o.set.words, func(each statusWords) bool { return each.status == verdict.status })
	if place >= 0 {
		found.HasWords, found.Message = true, o.set.words[place].texts[0]
	}
	return found, true
}

func init() {
	link.Decide = func(policy any, question int, values map[string]string) (link.Outcome, bool) {
		p, ok := policy.(*Policy)
		if !ok || p == nil || p.payload == nil {
			return link.Outcome{}, false
		}
		if question == link.Loads {
			return p.loads().decide(values)
		}
		return p.enables().decide(values)
	}
}
