package callability

import (
	"encoding/json"

	"github.com/callability/callability/clients/go/internal/wording"
)

// A Result is an MCP tool result: one text block, and perhaps an object as structured content.
type Result struct {
	// Text is the text of the only content block.
	Text string
	// StructuredContent is a JSON object; nil: there is none.
	StructuredContent json.RawMessage
	// IsError says that the agent should see a failure.
	IsError bool
}

// MarshalJSON returns what JSON does. A [json.Encoder] escapes some characters of it, unless SetEscapeHTML(false) was called.
func (r Result) MarshalJSON() ([]byte, error) { return r.JSON(), nil }

// JSON writes the result to the byte as the specification of adapters has it.
func (r Result) JSON() json.RawMessage {
	var block, found wording.Object
	block.Text("type", "text")
	block.Text("text", r.Text)
	found.Encoded("content", append(append([]byte{'['}, block.JSON()...), ']'))
	if r.StructuredContent != nil {
		found.Encoded("structuredContent", r.StructuredContent)
	}
	if r.IsError {
		found.Encoded("isError", []byte("true"))
	} else {
		found.Encoded("isError", []byte("false"))
	}
	return found.JSON()
}

func errorResult(text string) Result { return Result{Text: text, IsError: true} }

func objectResult(content []byte) Result {
	return Result{Text: string(content), StructuredContent: content}
}
