package callability

import (
	"strconv"
	"strings"

	"github.com/callability/callability/clients/go/internal/wording"
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
		if tool := &j.tools[place]; tool.status != StatusCallable && len(names) == 0 {
			tools = append(tools, tool)
		}
	}
	for _, name := range names {
		if tool := j.tool(name); tool != nil && tool.status != StatusCallable {
			tools = append(tools, tool)
		}
	}
	return j.locks(tools)
}

func (j *Judgement) locks(tools []*judged) []Lock {
	found := []Lock{}
	for status := StatusServerDisabled; status <= StatusCallable; status++ {
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
	var found wording.Object
	for _, each := range locks {
		found.Text(each.Status.String(), each.Text)
	}
	return found.JSON()
}

// maxNamed is how many tools the introduction of a text names; more are counted.
const maxNamed = 10

// remediationOf joins the texts of some tools, each introduced by the names of its tools if there are several.
func (j *Judgement) remediationOf(status Status, tools []*judged) string {
	var texts []string
	names := map[string][]string{}
	filled := map[string]string{}
	for _, tool := range tools {
		text := tool.refusal
		if status != StatusDisabledUnknown || tool.undetermined || text == "" {
			found, ok := filled[tool.wordsRule]
			if !ok {
				found = j.wordsOf(status, tool.wordsRule)
				filled[tool.wordsRule] = found
			}
			text = found
		}
		if _, ok := names[text]; !ok {
			texts = append(texts, text)
		}
		names[text] = append(names[text], tool.name)
	}
	if len(texts) == 1 {
		return texts[0]
	}
	for place, text := range texts {
		texts[place] = "For " + namesInSentence(names[text]) + ": " + text
	}
	return strings.Join(texts, " ")
}

func (j *Judgement) wordsOf(status Status, rule string) string {
	words, ok := j.words[wordsKey{status, rule}]
	if !ok {
		words = j.words[wordsKey{status, ""}]
	}
	template := words.Remediation
	if template == "" {
		template = wording.Unexplained
	}
	return wording.Filling{Own: j.adapter.Phrases, Declared: words.Phrases}.Fill(template)
}

func namesInSentence(names []string) string {
	shown := make([]string, 0, maxNamed)
	for _, name := range names[:min(len(names), maxNamed)] {
		shown = append(shown, inSentence(name))
	}
	text := strings.Join(shown, ", ")
	if more := len(names) - maxNamed; more > 0 {
		text += " and " + strconv.Itoa(more) + " more"
	}
	return text
}

// inSentence returns a name between backticks, or quoted if these might end before it does.
func inSentence(name string) string {
	visible := func(character rune) bool { return character > ' ' && character < 0x7f && character != '`' }
	hidden := strings.IndexFunc(name, func(character rune) bool { return !visible(character) }) >= 0
	if name == "" || len(name) > wording.MaxShownName || hidden {
		return wording.Quoted(name)
	}
	return "`" + name + "`"
}
