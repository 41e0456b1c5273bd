package callability

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/callability/callability/clients/go/internal/wording"
	"github.com/callability/callability/clients/go/search"
)

const (
	// IncludeDisabledSentence is for the description of the discovery tool, on every transport.
	IncludeDisabledSentence = "Set `include_disabled` to true to also see tools that exist but cannot be called, why, and" +
		" who can change that."
	// IncludeDisabledSchema is the parameter in the schema of the discovery tool, on every transport.
	IncludeDisabledSchema = `{"type":"boolean","default":false,"description":"Also return tools that exist but cannot be` +
		` called, with the reason and the remedy."}`
)

// DiscoverySchema is the input schema of the discovery tool: the arguments that Arguments reads, with the limits.
func (a Adapter) DiscoverySchema() json.RawMessage {
	return fmt.Appendf(nil, `{"type":"object","required":["query"],"properties":{"query":{"type":"string"},`+
		`"limit":{"type":"integer","minimum":1,"maximum":%d,"default":%d},"include_disabled":%s}}`,
		a.Limits.max(), a.Limits.usual(), IncludeDisabledSchema)
}

// A ToolText is what an upstream says about a tool. What it does not say is nil.
type ToolText struct {
	Description *string
	// InputSchema and Annotations are JSON as the upstream sent it. Without a byte they are not known.
	InputSchema, Annotations json.RawMessage
}

// A Discovery is a question of an agent, with what the proxy's search found.
type Discovery struct {
	// Query, Limit and IncludeDisabled are the arguments of the call; see Adapter.Arguments. A limit of 0 is the default.
	Query           string
	Limit           int
	IncludeDisabled bool
	// Found are qualified names: what the proxy's search found among the callable tools alone, best first.
	Found []string
	// FoundLocked are qualified names: what it found among the locked tools that may be searched, best first.
	FoundLocked []string
	// Text is what is known of a tool's text, by its qualified name, from the proxy's own storage. It is not asked about tools
	// that are withheld. Leave it out for a judgement that has the texts which it is about: an upstream may have sent others
	// since.
	Text func(name string) (ToolText, bool)
	// NotLoaded are texts about servers that did not load, from LoadMessages.
	NotLoaded []string
}

// Discovery answers a question: without IncludeDisabled, byte for byte as if locked tools did not exist, except for the
// notice if nothing callable was found. An error is an *[InvalidArgument] if the limit is out of range. A
// schema or annotations that are not JSON are left out. To write an answer in a form of your own, see Locked.
func (j *Judgement) Discovery(d Discovery) (Result, error) {
	limits := j.adapter.Limits
	if d.Limit = cmp.Or(d.Limit, limits.usual()); d.Limit < 1 || d.Limit > limits.max() {
		return Result{}, &InvalidArgument{limits.wrong(fmt.Sprint(d.Limit))}
	}
	var answer wording.Object
	hits := j.hits(d)
	entries := make([][]byte, len(hits))
	for place, tool := range hits {
		entries[place] = d.entry(tool)
	}
	answer.Encoded("tools", joined(entries))
	answer.Number("total", len(hits))
	if !d.IncludeDisabled && len(hits) > 0 {
		return objectResult(answer.JSON()), nil
	}
	locked := j.Locked(d)
	var notice []string
	switch {
	case locked.Total > 0 && d.IncludeDisabled:
		locked.addTo(&answer)
	case locked.Total > 0:
		notice = append(notice, locked.Notice)
	}
	if len(hits) == 0 {
		notice = append(notice, d.NotLoaded...)
	}
	if len(notice) > 0 {
		answer.Text("notice", strings.Join(notice, " "))
	}
	return objectResult(answer.JSON()), nil
}

// Locked is what a question finds among the locked tools, for an answer in a form of the proxy's own. Only with
// IncludeDisabled, such an answer shows any of it, except for the notice.
type Locked struct {
	// Total is how many locked tools match.
	Total int
	// Shown are the best of them, as many as the limits allow. A tool that is withheld is shown only if its name is plain.
	Shown []LockedTool
	// Locks say what to do about those that are shown, one for each status.
	Locks []Lock
	// Notice is the sentence for an answer without IncludeDisabled in which nothing callable was found; empty if Total is 0.
	Notice string
}

// A LockedTool is what an agent may see of a tool that it cannot call.
type LockedTool struct {
	// Name is the qualified name.
	Name         string
	Server, Tool string
	// Description is nil if it is withheld, or not known.
	Description *string
	Status      Status
}

// Locked returns what a question finds among the locked tools: those of FoundLocked, and those whose text may not be
// searched by their names alone. A limit that is out of range counts as the nearest one.
func (j *Judgement) Locked(d Discovery) Locked {
	limits := j.adapter.Limits
	limit := min(max(cmp.Or(d.Limit, limits.usual()), 1), limits.max(), limits.locked())
	matches := j.matches(d)
	found := Locked{Total: len(matches)}
	var shown []*judged
	for _, tool := range matches {
		if len(shown) < limit && (!tool.withheld || wording.IsPlain(tool.tool)) {
			text, _ := d.text(tool)
			found.Shown = append(found.Shown, LockedTool{tool.name, tool.server, tool.tool, text.Description, tool.status})
			shown = append(shown, tool)
		}
	}
	found.Locks = j.locks(shown)
	if found.Total > 0 {
		found.Notice = j.adapter.noticeOf(found.Total)
	}
	return found
}

func (l Locked) addTo(answer *wording.Object) {
	entries := make([][]byte, len(l.Shown))
	for place, tool := range l.Shown {
		var entry wording.Object
		entry.Text("name", tool.Name)
		entry.Text("server", tool.Server)
		if tool.Description != nil {
			entry.Text("description", *tool.Description)
		}
		entry.Text("status", tool.Status.String())
		entries[place] = entry.JSON()
	}
	answer.Encoded("disabled", joined(entries))
	answer.Encoded("remediation", remediation(l.Locks))
	if l.Total > len(l.Shown) {
		answer.Number("disabled_total", l.Total)
	}
}

func joined(entries [][]byte) []byte {
	return append(append([]byte{'['}, bytes.Join(entries, []byte{','})...), ']')
}

func (j *Judgement) hits(d Discovery) []*judged {
	var found []*judged
	seen := map[string]bool{}
	for _, name := range d.Found {
		tool := j.tool(name)
		if tool == nil || tool.status != StatusCallable || seen[name] {
			continue
		}
		seen[name] = true
		if found = append(found, tool); len(found) == d.Limit {
			break
		}
	}
	return found
}

// matches are the locked tools that the query finds: those found by text and those found by name alone, in turn.
func (j *Judgement) matches(d Discovery) []*judged {
	searched := map[string]*judged{}
	var byText, unsearched []*judged
	for place := range j.tools {
		tool := &j.tools[place]
		if tool.status == StatusCallable {
			continue
		}
		if _, known := d.text(tool); known {
			searched[tool.name] = tool
		} else {
			unsearched = append(unsearched, tool)
		}
	}
	for _, name := range d.FoundLocked {
		if tool := searched[name]; tool != nil {
			byText = append(byText, tool)
			delete(searched, name)
		}
	}
	byName := foundByName(search.QueryWords(d.Query), unsearched)
	found := make([]*judged, 0, len(byText)+len(byName))
	for place := range max(len(byText), len(byName)) {
		if place < len(byText) {
			found = append(found, byText[place])
		}
		if place < len(byName) {
			found = append(found, byName[place])
		}
	}
	return found
}

func (d Discovery) text(tool *judged) (ToolText, bool) {
	switch {
	case tool.withheld:
		return ToolText{}, false
	case d.Text != nil:
		return d.Text(tool.name)
	case tool.text != nil:
		return *tool.text, true
	}
	return ToolText{}, false
}

func (d Discovery) entry(tool *judged) []byte {
	var found wording.Object
	found.Text("name", tool.name)
	found.Text("server", tool.server)
	text, _ := d.text(tool)
	if text.Description != nil {
		found.Text("description", *text.Description)
	}
	for _, each := range []struct {
		key  string
		json []byte
	}{{"inputSchema", text.InputSchema}, {"annotations", text.Annotations}} {
		if normal, err := normalJSON(each.json); err == nil && !bytes.Equal(normal, []byte("null")) {
			found.Encoded(each.key, normal)
		}
	}
	return found.JSON()
}

func (a Adapter) noticeOf(count int) string {
	exist := "matching tools exist"
	if count == 1 {
		exist = "matching tool exists"
	}
	if a.NoDiscovery {
		return fmt.Sprintf("%d %s but cannot be called.", count, exist)
	}
	return fmt.Sprintf("%d %s but cannot be called; repeat with `include_disabled: true` to see why and who can change that.",
		count, exist)
}
