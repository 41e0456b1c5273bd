// Package enum writes and reads the enums of the public packages by their words. The word of a value is at its number.
package enum

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Name is the word of a value, or its type and number, such as "Status(99)", if it has none.
func Name[T ~uint8](value T, words []string) string {
	if int(value) < len(words) {
		return words[value]
	}
	return fmt.Sprintf("%s(%d)", reflect.TypeFor[T]().Name(), uint8(value))
}

// Parse sets a value by its word.
func Parse[T ~uint8](value *T, text []byte, words []string) error {
	place := slices.Index(words, string(text))
	if place < 0 {
		return fmt.Errorf("callability: found the %s %.64q, wanted one of %s", reflect.TypeFor[T]().Name(), text, strings.Join(words, ", "))
	}
	*value = T(place)
	return nil
}
