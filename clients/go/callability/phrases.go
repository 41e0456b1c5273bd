package callability

import "strings"

// neutral are the phrases of actions for which a proxy has none of its own.
var neutral = map[string]string{
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

// unexplained is the template for words that the policy, or this version, does not have.
const unexplained = "The policy service gives no reason. Tell the user. Next step: {check_logs}."

// A filling is what the placeholders of one template are replaced by.
type filling struct {
	// names are replaced quoted.
	names map[string]string
	// texts are replaced as they are.
	texts map[string]string
	// own are the proxy's phrases, declared those of the actions that a rule file declares.
	own, declared map[string]string
}

// fill replaces every placeholder of a template. What fills one is not searched for others.
func (f filling) fill(template string) string {
	return eachPlaceholder(template, func(name string) (string, bool) { return f.text(name), true })
}

func (f filling) text(name string) string {
	if found, ok := f.names[name]; ok {
		return quoted(found)
	}
	if found, ok := f.texts[name]; ok {
		return found
	}
	if found := f.own[name]; found != "" {
		return f.phrase(found)
	}
	if found := oneLine(f.declared[name]); found != "" {
		return f.phrase(found)
	}
	if found := neutral[name]; found != "" {
		return found
	}
	return strings.ReplaceAll(name, "_", " ")
}

// phrase fills the names into a phrase, so that a person can copy a command: nothing that a shell could read otherwise.
func (f filling) phrase(phrase string) string {
	return eachPlaceholder(phrase, func(name string) (string, bool) {
		if name != "server" && name != "tool" {
			return "", false
		}
		if found := f.names[name]; isPlain(found) && found[0] != '-' {
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
	return wellFormed(out.String())
}
