package callability

// A Result is an MCP tool result: one text block, and perhaps an object as structured content.
type Result struct {
	// Text is the text of the only content block.
	Text string
	// StructuredContent is a JSON object; nil: there is none.
	StructuredContent []byte
	// IsError says that the agent should see a failure.
	IsError bool
}

// MarshalJSON writes the result to the byte as docs/adapter.md specifies. Call it directly, or on an encoder with
// SetEscapeHTML(false): json.Marshal escapes some characters of what it returns.
func (r Result) MarshalJSON() ([]byte, error) { return r.JSON(), nil }

// JSON writes the result to the byte as docs/adapter.md specifies.
func (r Result) JSON() []byte {
	var block, found object
	block.text("type", "text")
	block.text("text", r.Text)
	found.encoded("content", append(append([]byte{'['}, block.json()...), ']'))
	if r.StructuredContent != nil {
		found.encoded("structuredContent", r.StructuredContent)
	}
	if r.IsError {
		found.encoded("isError", []byte("true"))
	} else {
		found.encoded("isError", []byte("false"))
	}
	return found.json()
}

func errorResult(text string) Result { return Result{Text: text, IsError: true} }

func objectResult(content []byte) Result {
	return Result{Text: string(content), StructuredContent: content}
}
