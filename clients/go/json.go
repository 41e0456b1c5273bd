package callability

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// appendJSONString appends a text as docs/adapter.md writes it: encoding/json would escape U+2028 and U+2029 too.
func appendJSONString(out []byte, text string) []byte {
	out = append(out, '"')
	for _, character := range text {
		switch {
		case character == '"' || character == '\\':
			out = append(out, '\\', byte(character))
		case character >= ' ':
			out = utf8.AppendRune(out, character)
		default:
			out = appendControl(out, character)
		}
	}
	return append(out, '"')
}

func appendControl(out []byte, character rune) []byte {
	switch character {
	case '\b':
		return append(out, `\b`...)
	case '\f':
		return append(out, `\f`...)
	case '\n':
		return append(out, `\n`...)
	case '\r':
		return append(out, `\r`...)
	case '\t':
		return append(out, `\t`...)
	}
	return appendEscape(out, character)
}

// appendEscape appends `\u` and four hexadecimal digits.
func appendEscape(out []byte, unit rune) []byte {
	return append(out, '\\', 'u', hexDigits[unit>>12&15], hexDigits[unit>>8&15], hexDigits[unit>>4&15], hexDigits[unit&15])
}

// An object is a JSON object whose members keep their order. A value is encoded when it is set.
type object struct{ members []byte }

func (o *object) key(name string) {
	if len(o.members) > 0 {
		o.members = append(o.members, ',')
	}
	o.members = append(appendJSONString(o.members, name), ':')
}

func (o *object) text(name, value string) {
	o.key(name)
	o.members = appendJSONString(o.members, value)
}

func (o *object) number(name string, value int) {
	o.key(name)
	o.members = fmt.Append(o.members, value)
}

func (o *object) encoded(name string, value []byte) {
	o.key(name)
	o.members = append(o.members, value...)
}

func (o *object) json() []byte {
	return append(append(append(make([]byte, 0, len(o.members)+2), '{'), o.members...), '}')
}

// normalJSON writes the JSON of an upstream in the form of docs/adapter.md: compact, with its numbers as they were written,
// and of several members with one key the last, in the place of the first.
func normalJSON(text []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	value, err := normalValue(decoder)
	if err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("found more than one JSON value")
	}
	return value, nil
}

func normalValue(decoder *json.Decoder) ([]byte, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Delim:
		if token == '{' {
			return normalObject(decoder)
		}
		return normalArray(decoder)
	case string:
		return appendJSONString(nil, token), nil
	case json.Number:
		return []byte(token), nil
	case bool:
		return fmt.Append(nil, token), nil
	}
	return []byte("null"), nil
}

func normalArray(decoder *json.Decoder) ([]byte, error) {
	out := []byte{'['}
	for decoder.More() {
		value, err := normalValue(decoder)
		if err != nil {
			return nil, err
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, value...)
	}
	_, err := decoder.Token()
	return append(out, ']'), err
}

func normalObject(decoder *json.Decoder) ([]byte, error) {
	var keys []string
	values := map[string][]byte{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		key, ok := token.(string)
		if !ok {
			return nil, fmt.Errorf("found %v, wanted a key", token)
		}
		if _, again := values[key]; !again {
			keys = append(keys, key)
		}
		if values[key], err = normalValue(decoder); err != nil {
			return nil, err
		}
	}
	var found object
	for _, key := range keys {
		found.encoded(key, values[key])
	}
	_, err := decoder.Token()
	return found.json(), err
}
