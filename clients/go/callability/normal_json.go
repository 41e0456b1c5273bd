package callability

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/callability/callability/clients/go/internal/wording"
)

// normalJSON writes the JSON of an upstream in the form of docs/adapter.md: compact, with its numbers as they were written,
// and of several members with one key the last, in the place of the first.
func normalJSON(text []byte) ([]byte, error) {
	n := normalizer{decoder: json.NewDecoder(bytes.NewReader(text))}
	n.decoder.UseNumber()
	if err := n.value(); err != nil {
		return nil, err
	}
	if _, err := n.decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("found more than one JSON value")
	}
	return n.moved(), nil
}

// maxJSONDepth is the limit of encoding/json, which its Decoder.Token does not keep: each level takes some of the stack.
const maxJSONDepth = 10_000

// A normalizer writes every value into one buffer: one for each level would copy a value as often as it is nested.
type normalizer struct {
	decoder *json.Decoder
	depth   int
	out     []byte
	// moves are the parts of out that are not what they should be, by their starts.
	moves map[int]move
}

// A span is a part of the buffer.
type span struct{ start, end int }

// A move says where a part ends, and which other one belongs in its place.
type move struct {
	end         int
	replacement span
}

func (n *normalizer) value() error {
	token, err := n.decoder.Token()
	if err != nil {
		return err
	}
	switch token := token.(type) {
	case json.Delim:
		return n.within(token)
	case string:
		n.out = wording.AppendJSONString(n.out, token)
	case json.Number:
		n.out = append(n.out, token...)
	case bool:
		n.out = strconv.AppendBool(n.out, token)
	default:
		n.out = append(n.out, "null"...)
	}
	return nil
}

// within reads an object or an array, whose first delimiter was read.
func (n *normalizer) within(delimiter json.Delim) error {
	if n.depth++; n.depth > maxJSONDepth {
		return fmt.Errorf("found more than %d levels", maxJSONDepth)
	}
	defer func() { n.depth-- }()
	if delimiter == '{' {
		return n.object()
	}
	return n.array()
}

func (n *normalizer) array() error {
	n.out = append(n.out, '[')
	for first := true; n.decoder.More(); first = false {
		if !first {
			n.out = append(n.out, ',')
		}
		if err := n.value(); err != nil {
			return err
		}
	}
	n.out = append(n.out, ']')
	_, err := n.decoder.Token()
	return err
}

func (n *normalizer) object() error {
	n.out = append(n.out, '{')
	values := map[string]span{}
	for n.decoder.More() {
		start := len(n.out)
		if len(values) > 0 {
			n.out = append(n.out, ',')
		}
		key, value, err := n.member()
		if err != nil {
			return err
		}
		if first, again := values[key]; again {
			n.replace(first, value)
			n.replace(span{start, value.end}, span{})
		} else {
			values[key] = value
		}
	}
	n.out = append(n.out, '}')
	_, err := n.decoder.Token()
	return err
}

// member returns a key, and where its value was written.
func (n *normalizer) member() (string, span, error) {
	token, err := n.decoder.Token()
	if err != nil {
		return "", span{}, err
	}
	key, ok := token.(string)
	if !ok {
		return "", span{}, fmt.Errorf("found %v, wanted a key", token)
	}
	n.out = append(wording.AppendJSONString(n.out, key), ':')
	start := len(n.out)
	err = n.value()
	return key, span{start, len(n.out)}, err
}

func (n *normalizer) replace(part, replacement span) {
	if n.moves == nil {
		n.moves = map[int]move{}
	}
	n.moves[part.start] = move{part.end, replacement}
}

// moved returns the buffer with every part in its place.
func (n *normalizer) moved() []byte {
	if len(n.moves) == 0 {
		return n.out
	}
	return n.appendPart(make([]byte, 0, len(n.out)), span{0, len(n.out)}, slices.Sorted(maps.Keys(n.moves)))
}

func (n *normalizer) appendPart(to []byte, part span, starts []int) []byte {
	for {
		next, _ := slices.BinarySearch(starts, part.start)
		if next == len(starts) || starts[next] >= part.end {
			return append(to, n.out[part.start:part.end]...)
		}
		move := n.moves[starts[next]]
		to = append(to, n.out[part.start:starts[next]]...)
		to = n.appendPart(to, move.replacement, starts)
		part.start = move.end
	}
}
