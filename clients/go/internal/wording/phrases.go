package wording

import "strings"

// Neutral are the phrases of actions for which a proxy has none of its own.
var Neutral = map[string]string{
	"enable_server":  "enable the server",
	"edit_config":    "edit the server's tool lists in the config",
	"release_server": "review the server, then release it from quarantine",
	"enable_tool":    "enable the tool",
	"approve_tool":   "review the tool and approve it",
	"check_logs":     "check the proxy's logs",
	"edit_labels":    "edit the labels of the server, the tool or the agent in the config",
	"edit_policy":    "edit the policy",
	"grant_access":   "grant access to the server",
	"check_server":   "check the server and its config entry",
}

// Unexplained is the template for words that the policy, or this version, does not have.
const Unexplained = "The policy service gives no reason. Tell the user. Next step: {check_logs}."

// A Filling is what the placeholders of one template are replaced by.
type Filling struct {
	// Names are replaced quoted.
	Names map[string]string
	// Texts are replaced as they are.
	Texts map[string]string
	// Own are the proxy's phrases, Declared those of the actions that a rule file declares.
	Own, Declared map[string]string
}

// Fill replaces every placeholder of a template. What fills one is not searched for others.
func (f Filling) Fill(template string) string {
	return eachPlaceholder(template, func(name string) (string, bool) { return f.text(name), true })
}

func (f Filling) text(name string) string {
	if found, ok := f.Names[name]; ok {
		return Quoted(found)
	}
	if found, ok := f.Texts[name]; ok {
		return found
	}
	if found := f.Own[name]; found != "" {
		return f.phrase(found)
	}
	if found := OneLine(f.Declared[name]); found != "" {
		return f.phrase(found)
	}
	if found := Neutral[name]; found != "" {
		return found
	}
	return strings.ReplaceAll(name, "_", " ")
}

// phrase fills the names into a phrase, so that a person can copy a command: nothing that a shell could read otherwise.
func (f Filling) phrase(phrase string) string {
	return eachPlaceholder(phrase, func(name string) (string, bool) {
		if name != "server" && name != "tool" {
			return "", false
		}
		if found := f.Names[name]; IsPlain(found) && found[0] != '-' {
			return found, true
		}
		return strings.ToUpper(name), true
	})
}

// eachPlaceholder replaces what is `{`, one or more of `a`–`z` and `_`, `}`, where replaced says so.
func eachPlaceholder(template string, replaced func(name string) (string, bool)) string {
	var out strings.Builder
	for {
		start := strings.IndexByte(template, '{')
		if start < 0 {
			break
		}
		end := start + 1
		for end < len(template) && (isSmall(template[end]) || template[end] == '_') {
			end++
		}
		if end > start+1 && end < len(template) && template[end] == '}' {
			if text, ok := replaced(template[start+1 : end]); ok {
				out.WriteString(template[:start])
				out.WriteString(text)
				template = template[end+1:]
				continue
			}
		}
		out.WriteString(template[:end])
		template = template[end:]
	}
	out.WriteString(template)
	return WellFormed(out.String())
}
