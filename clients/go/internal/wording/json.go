package wording

import (
	"fmt"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// AppendJSONString appends a text as docs/adapter.md writes it: encoding/json would escape U+2028 and U+2029 too.
func AppendJSONString(out []byte, text string) []byte {
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

// An Object is a JSON object whose members keep their order. A value is encoded when it is set.
type Object struct{ members []byte }

func (o *Object) key(name string) {
	if len(o.members) > 0 {
		o.members = append(o.members, ',')
	}
	o.members = append(AppendJSONString(o.members, name), ':')
}

func (o *Object) Text(name, value string) {
	o.key(name)
	o.members = AppendJSONString(o.members, value)
}

func (o *Object) Number(name string, value int) {
	o.key(name)
	o.members = fmt.Append(o.members, value)
}

func (o *Object) Encoded(name string, value []byte) {
	o.key(name)
	o.members = append(o.members, value...)
}

func (o *Object) JSON() []byte {
	return append(append(append(make([]byte, 0, len(o.members)+2), '{'), o.members...), '}')
}
