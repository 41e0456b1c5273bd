package callability

import (
	"bytes"
	"fmt"
	"strings"
)

const (
	// DefaultLimit is how many callable tools a discovery answer has if the call gives no limit.
	DefaultLimit = 15
	// MaxLimit is the largest limit of a call.
	MaxLimit = 100
	// IncludeDisabledSentence is for the description of the discovery tool, on every transport (FR-014).
	IncludeDisabledSentence = "Set `include_disabled` to true to also see tools that exist but cannot be called, why, and" +
		" who can change that."
	// IncludeDisabledSchema is the parameter in the schema of the discovery tool, on every transport (FR-014).
	IncludeDisabledSchema = `{"type":"boolean","default":false,"description":"Also return tools that exist but cannot be` +
		` called, with the reason and the remedy."}`

	maxLocked = 10
)

// A ToolText is what an upstream says about a tool. What it does not say is nil.
type ToolText struct {
	Description *string
	// InputSchema and Annotations are JSON as the upstream sent it. Without a byte they are not JSON: leave them nil.
	InputSchema, Annotations []byte
}

// A Discovery is a question of an agent, with what the proxy's search found.
type Discovery struct {
	// Query, Limit and IncludeDisabled are the arguments of the call; see CheckArguments. A limit of 0 is the default.
	Query           string
	Limit           int
	IncludeDisabled bool
	// Found are qualified names: what the proxy's search found among the callable tools alone, best first.
	Found []string
	// FoundLocked are qualified names: what it found among the locked tools that may be searched, best first.
	FoundLocked []string
	// Text is what is known of a tool's text, by its qualified name. It is not asked about tools that are withheld. Leave it
	// out for a judgement of an Inventory, which has the texts that it is about: an upstream may have sent others since.
	Text func(name string) (ToolText, bool)
	// NotLoaded are texts about servers that did not load, from LoadMessages.
	NotLoaded []string
}

// Discovery answers a question: without IncludeDisabled, byte for byte as if locked tools did not exist, except for the
// notice if nothing callable was found (FR-002, FR-009). An error is an *InvalidArgument if the limit is out of range; any
// other says which tool has an input schema or annotations that are not JSON.
func (j *Judgement) Discovery(d Discovery) (Result, error) {
	if d.Limit == 0 {
		d.Limit = DefaultLimit
	}
	if d.Limit < 1 || d.Limit > MaxLimit {
		return Result{}, &InvalidArgument{limitError(fmt.Sprint(d.Limit))}
	}
	var answer object
	hits := j.hits(d)
	entries, err := encodedList(hits, func(tool *judged) ([]byte, error) { return d.entry(tool, false) })
	if err != nil {
		return Result{}, err
	}
	answer.encoded("tools", entries)
	answer.number("total", len(hits))
	if !d.IncludeDisabled && len(hits) > 0 {
		return objectResult(answer.json()), nil
	}
	matches := j.matches(d)
	var notice []string
	switch {
	case len(matches) > 0 && d.IncludeDisabled:
		if err := j.addDisabled(&answer, d, matches); err != nil {
			return Result{}, err
		}
	case len(matches) > 0:
		notice = append(notice, noticeOf(len(matches)))
	}
	if len(hits) == 0 {
		notice = append(notice, d.NotLoaded...)
	}
	if len(notice) > 0 {
		answer.text("notice", strings.Join(notice, " "))
	}
	return objectResult(answer.json()), nil
}

func (j *Judgement) hits(d Discovery) []*judged {
	var found []*judged
	seen := map[string]bool{}
	for _, name := range d.Found {
		tool := j.tool(name)
		if tool == nil || tool.status != Callable || seen[name] {
			continue
		}
		seen[name] = true
		if found = append(found, tool); len(found) == d.Limit {
			break
		}
	}
	return found
}

// matches are the locked tools that the query finds: those found by text and those found by name alone, in turn (FR-006).
func (j *Judgement) matches(d Discovery) []*judged {
	searched := map[string]*judged{}
	var byText, unsearched []*judged
	for place := range j.tools {
		tool := &j.tools[place]
		if tool.status == Callable {
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
	byName := foundByName(wantedWords(d.Query), unsearched)
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

func (j *Judgement) addDisabled(answer *object, d Discovery, matches []*judged) error {
	var shown []*judged
	for _, tool := range matches {
		if len(shown) < min(d.Limit, maxLocked) && (!tool.withheld || isPlain(tool.tool)) {
			shown = append(shown, tool)
		}
	}
	entries, err := encodedList(shown, func(tool *judged) ([]byte, error) { return d.entry(tool, true) })
	if err != nil {
		return err
	}
	answer.encoded("disabled", entries)
	answer.encoded("remediation", remediation(j.locks(shown)))
	if len(matches) > len(shown) {
		answer.number("disabled_total", len(matches))
	}
	return nil
}

func encodedList(tools []*judged, entry func(*judged) ([]byte, error)) ([]byte, error) {
	every := make([][]byte, len(tools))
	for place, tool := range tools {
		var err error
		if every[place], err = entry(tool); err != nil {
			return nil, fmt.Errorf("callability: the text of tool %s: %w", quoted(tool.name), err)
		}
	}
	return append(append([]byte{'['}, bytes.Join(every, []byte{','})...), ']'), nil
}

func (d Discovery) entry(tool *judged, locked bool) ([]byte, error) {
	var found object
	found.text("name", tool.name)
	found.text("server", tool.server)
	text, _ := d.text(tool)
	if text.Description != nil {
		found.text("description", *text.Description)
	}
	if locked {
		found.text("status", tool.status.String())
		return found.json(), nil
	}
	for _, each := range []struct {
		key  string
		json []byte
	}{{"inputSchema", text.InputSchema}, {"annotations", text.Annotations}} {
		if each.json == nil {
			continue
		}
		normal, err := normalJSON(each.json)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", each.key, err)
		}
		if !bytes.Equal(normal, []byte("null")) {
			found.encoded(each.key, normal)
		}
	}
	return found.json(), nil
}

func noticeOf(count int) string {
	exist := "matching tools exist"
	if count == 1 {
		exist = "matching tool exists"
	}
	return fmt.Sprintf("%d %s but cannot be called; repeat with `include_disabled: true` to see why and who can change that.",
		count, exist)
}
