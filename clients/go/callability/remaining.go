package callability

import (
	"encoding/binary"
	"fmt"
	"strings"
	"sync"

	"github.com/callability/callability/clients/go/internal/wording"
)

// Remaining is what still locks the tool once the lock of the verdict is lifted: the path to callable without its first
// step. It is the zero Path if nothing does, if the verdict is callable or undetermined, if nobody can lift its lock, or if
// the policy is too large to say. It is found once for each combination of facts.
func (v Verdict) Remaining() Path { return v.remaining().clone() }

func (v Verdict) remaining() Path {
	if v.policy == nil || v.number < 0 {
		return Path{}
	}
	if found := v.policy.verdicts[v.number]; found.undetermined || found.place == v.policy.tools().open {
		return Path{}
	}
	return v.policy.remaining.at(v)
}

// maxRemaining is how many combinations of facts are kept with what remains. All are forgotten beyond it.
const maxRemaining = 4096

// remainingPaths are the paths that a policy has found, by the points of the axes.
type remainingPaths struct {
	mutex    sync.RWMutex
	byPoints map[string]Path
}

func (r *remainingPaths) at(v Verdict) Path {
	var space [64]byte
	key := space[:0]
	for place := range v.policy.axes {
		key = binary.AppendUvarint(key, uint64(v.point(place)))
	}
	r.mutex.RLock()
	found, known := r.byPoints[string(key)]
	r.mutex.RUnlock()
	if known {
		return found
	}
	explained := explained{policy: v.policy, set: v.policy.tools(), readings: v.readings()}
	found = explained.remaining()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.byPoints == nil || len(r.byPoints) >= maxRemaining {
		r.byPoints = map[string]Path{}
	}
	r.byPoints[string(key)] = found
	return found
}

func (v Verdict) point(place int) int32 {
	if v.policy.axes[place].ofAgent {
		return v.agent.points[place]
	}
	return v.tool.points[place]
}

// readings are those at the points of the verdict. No rule reads a fact that has no axis.
func (v Verdict) readings() []int32 {
	set := v.policy.tools()
	found := make([]int32, len(set.facts))
	for place := range found {
		found[place] = int32(len(set.facts[place].values))
	}
	for place := range set.axes {
		axis := &set.axes[place]
		for number, reading := range axis.at(int(v.point(place))) {
			found[axis.facts[number]] = reading
		}
	}
	return found
}

func (e *explained) remaining() Path {
	found := e.path()
	switch {
	case len(found.Steps) > 1:
		found.Steps = found.Steps[1:]
		return found
	case len(found.Steps) == 1 && found.End == PathEndCallable, len(found.Steps) == 0 && !e.isLiftedBySomebody():
		return Path{}
	}
	return Path{End: found.End, FindOut: found.FindOut}
}

// isLiftedBySomebody reports whether changes that somebody can make keep the rule that decides from doing so.
func (e *explained) isLiftedBySomebody() bool {
	search := pathSearch{explained: e}
	number, _ := e.set.decided(e.readings)
	rule := &e.set.rules[number]
	return search.easiest(rule, e.readings, search.values(rule, e.readings)) != nil
}

// maxSaidSteps bounds the steps that a rejection says. Further ones are counted.
const maxSaidSteps = 5

var owners = map[LiftedBy]string{LiftedByUser: "the user", LiftedByOperator: "the operator"}

// thenLifted are sentences about the locks that remain, in the order of the path.
func thenLifted(remaining Path, words wording.Filling) []string {
	var found []string
	for _, step := range remaining.Steps[:min(len(remaining.Steps), maxSaidSteps)] {
		for rest := step.Changes; len(rest) > 0; {
			next := 1
			for next < len(rest) && rest[next].ChangedBy == rest[0].ChangedBy {
				next++
			}
			found = append(found, thenChanged(rest[:next], words))
			rest = rest[next:]
		}
	}
	if more := len(remaining.Steps) - maxSaidSteps; more == 1 {
		found = append(found, "Then 1 more lock remains.")
	} else if more > 1 {
		found = append(found, fmt.Sprintf("Then %d more locks remain.", more))
	}
	switch remaining.End {
	case PathEndUnspecified, PathEndCallable:
		return found
	case PathEndPolicyChange:
		return append(found, "Then only a change of the policy lifts it.")
	case PathEndFindOut:
		return append(found, "Then it depends on "+unreadKinds(remaining.FindOut)+", which could not be read.")
	}
	return append(found, "Then another lock may remain.")
}

// thenChanged is the sentence about changes of one owner.
func thenChanged(changes []Change, words wording.Filling) string {
	owner, is := owners[changes[0].ChangedBy]
	if !is {
		return "Then the proxy itself still refuses it."
	}
	words.Declared = map[string]string{}
	var actions []string
	for _, change := range changes {
		if _, again := words.Declared[change.Action]; !again {
			actions = append(actions, "{"+change.Action+"}")
		}
		words.Declared[change.Action] = change.Phrase
	}
	for place, each := range actions {
		actions[place] = words.Fill(each)
	}
	return "Then " + owner + " must " + strings.Join(actions, " and ") + "."
}

// whoLiftsAll says who can lift all locks, if it is known of each.
func whoLiftsAll(first LiftedBy, remaining Path) string {
	if owners[first] == "" {
		return whoLifts[first]
	}
	if remaining.End != PathEndUnspecified && remaining.End != PathEndCallable {
		return ""
	}
	all := map[string]bool{owners[first]: true}
	for _, step := range remaining.Steps {
		for _, change := range step.Changes {
			all[owners[change.ChangedBy]] = true
		}
	}
	switch {
	case all[""]:
		return ""
	case len(all) == 1:
		return whoLifts[first]
	}
	return "Both the user and the operator must act."
}
