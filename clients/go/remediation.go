package callability

import (
	"slices"
	"strings"
)

// A Lock is one entry of a remediation: a status, and what to do about it.
type Lock struct {
	Status Status
	Text   string
}

// Locks says what to do about some tools, with one text for each status, in the order of the statuses. Without names it is
// about all locked tools of the judgement. It is never nil.
func (j *Judgement) Locks(names ...string) []Lock {
	var tools []*judged
	for place := range j.tools {
		if tool := &j.tools[place]; tool.status != Callable && len(names) == 0 {
			tools = append(tools, tool)
		}
	}
	for _, name := range names {
		if tool := j.tool(name); tool != nil && tool.status != Callable {
			tools = append(tools, tool)
		}
	}
	return j.locks(tools)
}

func (j *Judgement) locks(tools []*judged) []Lock {
	found := []Lock{}
	for status := ServerDisabled; status <= Callable; status++ {
		var mine []*judged
		for _, tool := range tools {
			if tool.status == status {
				mine = append(mine, tool)
			}
		}
		if len(mine) > 0 {
			found = append(found, Lock{status, j.remediationOf(status, mine)})
		}
	}
	return found
}

func remediation(locks []Lock) []byte {
	var found object
	for _, each := range locks {
		found.text(each.Status.String(), each.Text)
	}
	return found.json()
}

func (j *Judgement) remediationOf(status Status, tools []*judged) string {
	var refusals []string
	var others []*judged
	for _, tool := range tools {
		switch {
		case status != DisabledUnknown || tool.undetermined || tool.refusal == "":
			others = append(others, tool)
		case !slices.Contains(refusals, tool.refusal):
			refusals = append(refusals, tool.refusal)
		}
	}
	refused := strings.Join(refusals, " ")
	switch {
	case len(others) == 0:
		return refused
	case len(refusals) == 0:
		return j.wordsOf(status, others)
	}
	return "For some of these tools: " + refused + " For the others: " + j.wordsOf(status, others)
}

func (j *Judgement) wordsOf(status Status, tools []*judged) string {
	rule := tools[0].wordsRule
	for _, tool := range tools[1:] {
		if tool.wordsRule != rule {
			rule = ""
		}
	}
	words, ok := j.words[wordsKey{status, rule}]
	if !ok {
		words = j.words[wordsKey{status, ""}]
	}
	template := words.Remediation
	if template == "" {
		template = unexplained
	}
	return filling{own: j.adapter.Phrases, declared: words.Phrases}.fill(template)
}
