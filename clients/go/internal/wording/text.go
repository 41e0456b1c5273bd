// Package wording writes the texts and the JSON of docs/adapter.md to the byte.
package wording

import (
	"strings"
	"unicode/utf8"
)

const (
	MaxShownName = 128
	maxLine      = 1000
	maxParts     = 19
)

// IsPlain reports whether a name is 1 to 128 characters of `[A-Za-z0-9_.-]`.
func IsPlain(name string) bool {
	for _, each := range []byte(name) {
		if !isAlphanumeric(each) && each != '_' && each != '.' && each != '-' {
			return false
		}
	}
	return name != "" && len(name) <= MaxShownName
}

func isAlphanumeric(each byte) bool { return isSmall(each) || isCapital(each) || isDigit(each) }
func isSmall(each byte) bool        { return 'a' <= each && each <= 'z' }
func isCapital(each byte) bool      { return 'A' <= each && each <= 'Z' }
func isDigit(each byte) bool        { return '0' <= each && each <= '9' }

// Cut returns the first characters of a text.
func Cut(text string, most int) string {
	count := 0
	for place := range text {
		if count == most {
			return text[:place]
		}
		count++
	}
	return text
}

// Quoted returns a name as a JSON string of ASCII characters, cut.
func Quoted(name string) string {
	out := []byte{'"'}
	for _, character := range Cut(name, MaxShownName) {
		switch {
		case character == '"' || character == '\\':
			out = append(out, '\\', byte(character))
		case character >= ' ' && character < 0x7f:
			out = append(out, byte(character))
		case character < ' ':
			out = appendControl(out, character)
		case character < 0x10000:
			out = appendEscape(out, character)
		default:
			character -= 0x10000
			out = appendEscape(appendEscape(out, 0xd800+character>>10), 0xdc00+character&0x3ff)
		}
	}
	return string(append(out, '"'))
}

func QuotedAll(names []string) string {
	found := make([]string, len(names))
	for place, name := range names {
		found[place] = Quoted(name)
	}
	return strings.Join(found, ", ")
}

// blanks are the first and the last characters of the ranges that separate, whatever the version of Unicode.
var blanks = [...][2]rune{
	{0x00, 0x20}, {0x7f, 0xa0}, {0xad, 0xad}, {0x61c, 0x61c}, {0x1680, 0x1680}, {0x180e, 0x180e}, {0x2000, 0x200f},
	{0x2028, 0x202f}, {0x205f, 0x206f}, {0x3000, 0x3000}, {0xe000, 0xf8ff}, {0xfeff, 0xfeff}, {0xfff0, 0xfffb},
	{0xfffe, 0xffff}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0x10ffff},
}

func isBlank(character rune) bool {
	for _, each := range blanks {
		if each[0] <= character && character <= each[1] {
			return true
		}
	}
	return false
}

// OneLine returns a text of the proxy's own in one line of at most 1,000 characters.
func OneLine(text string) string {
	joined := strings.Join(strings.FieldsFunc(WellFormed(text), isBlank), " ")
	return strings.TrimRight(Cut(joined, maxLine), " ")
}

// WellFormed replaces every byte that is no part of a character. Halves of surrogate pairs were replaced when the text
// was read: no text of Go has them.
func WellFormed(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return string([]rune(text))
}

// Sentence returns a text in one line and without full stops at its end, or what stands for an empty one.
func Sentence(text, otherwise string) string {
	if found := strings.TrimRight(OneLine(text), "."); found != "" {
		return found
	}
	return otherwise
}

// Shortened cuts a text in one line after its 18th part, if it has more than 19.
func Shortened(line string) string {
	parts, after := 0, 0
	for place := 0; place < len(line); {
		if line[place] == ' ' {
			place++
			continue
		}
		place += partLength(line[place:])
		if parts++; parts == maxParts-1 {
			after = place
		}
		if parts > maxParts {
			return line[:after] + "…"
		}
	}
	return line
}

func partLength(text string) int {
	run := func(from, most int, fits func(byte) bool) int {
		length := from
		for length < len(text) && length-from < most && fits(text[length]) {
			length++
		}
		return length
	}
	start := 0
	if isCapital(text[0]) {
		start = 1
	}
	if length := run(start, 8, isSmall); length > start {
		return length
	}
	if isCapital(text[0]) {
		return run(0, 3, isCapital)
	}
	if isDigit(text[0]) {
		return run(0, 3, isDigit)
	}
	_, size := utf8.DecodeRuneInString(text)
	return size
}
