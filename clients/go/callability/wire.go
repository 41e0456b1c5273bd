package callability

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// The wire types of protobuf. Groups, 3 and 4, are refused: no message of this format has one.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

// maxPrefixBytes is how many bytes a tag or a length takes at most.
const maxPrefixBytes = 5

// A wireField is one field of a message as it stands on the wire, and what is behind it.
type wireField struct {
	number int
	kind   int
	varint uint64
	bytes  []byte
	behind []byte
}

// alike counts the fields with its number from this one to the end of the message.
func (f wireField) alike() int {
	count := 1
	for message := f.behind; len(message) > 0; {
		next, rest, err := nextField(message)
		if err != nil {
			return count
		}
		if next.number == f.number {
			count++
		}
		message = rest
	}
	return count
}

// eachField passes every field of a message to visit, in the order of the wire.
func eachField(message []byte, visit func(wireField) error) error {
	for len(message) > 0 {
		field, rest, err := nextField(message)
		if err != nil {
			return err
		}
		field.behind = rest
		if err := visit(field); err != nil {
			return err
		}
		message = rest
	}
	return nil
}

func nextField(message []byte) (wireField, []byte, error) {
	tag, size := binary.Uvarint(message)
	if size <= 0 || size > maxPrefixBytes {
		return wireField{}, nil, fmt.Errorf("found the tag of a field that is cut or longer than %d bytes", maxPrefixBytes)
	}
	if tag > math.MaxUint32 || tag>>3 == 0 {
		return wireField{}, nil, fmt.Errorf("found field number %d, wanted 1 to 536870911", tag>>3)
	}
	field := wireField{number: int(tag >> 3), kind: int(tag & 7)}
	message = message[size:]
	switch field.kind {
	case wireVarint:
		field.varint, size = binary.Uvarint(message)
		if size <= 0 {
			return field, nil, fmt.Errorf("found a number in field %d that is cut or longer than 10 bytes", field.number)
		}
	case wireBytes:
		length, prefix := binary.Uvarint(message)
		if prefix <= 0 || prefix > maxPrefixBytes || length > uint64(len(message)-prefix) {
			return field, nil, fmt.Errorf("found field %d longer than its message", field.number)
		}
		size = prefix + int(length)
		field.bytes = message[prefix:size]
	case wireFixed64, wireFixed32:
		if size = 8; field.kind == wireFixed32 {
			size = 4
		}
		if len(message) < size {
			return field, nil, fmt.Errorf("found field %d longer than its message", field.number)
		}
	default:
		return field, nil, fmt.Errorf("found wire type %d in field %d, wanted 0, 1, 2 or 5", field.kind, field.number)
	}
	return field, message[size:], nil
}

func (f wireField) wanted(kind int) error {
	if f.kind != kind {
		return fmt.Errorf("found wire type %d in field %d, wanted %d", f.kind, f.number, kind)
	}
	return nil
}

// number31 reads a number that fits in 31 bits: every number that counts or names a place.
func (f wireField) number31(into *int32) error {
	if err := f.wanted(wireVarint); err != nil {
		return err
	}
	return place(f.varint, f.number, into)
}

func place(found uint64, field int, into *int32) error {
	if found > math.MaxInt32 {
		return fmt.Errorf("found the number %d in field %d, wanted at most %d", found, field, math.MaxInt32)
	}
	*into = int32(found)
	return nil
}

func (f wireField) number64(into *uint64) error {
	*into = f.varint
	return f.wanted(wireVarint)
}

func (f wireField) flag(into *bool) error {
	*into = f.varint != 0
	return f.wanted(wireVarint)
}

func (f wireField) text(into *string) error {
	err := f.unreadText()
	if err == nil {
		*into = string(f.bytes)
	}
	return err
}

// unreadText checks a text that nothing here needs.
func (f wireField) unreadText() error {
	if err := f.wanted(wireBytes); err != nil {
		return err
	}
	if !utf8.Valid(f.bytes) {
		return fmt.Errorf("found text in field %d that is not UTF-8", f.number)
	}
	return nil
}

// unreadNumber checks a number that nothing here needs.
func (f wireField) unreadNumber() error {
	var number int32
	return f.number31(&number)
}

// numbers reads a repeated number, packed or not.
func (f wireField) numbers(into *[]int32) error {
	var number int32
	if f.kind == wireVarint {
		if err := place(f.varint, f.number, &number); err != nil {
			return err
		}
		*into = append(*into, number)
		return nil
	}
	if err := f.wanted(wireBytes); err != nil {
		return err
	}
	*into = slices.Grow(*into, packedNumbers(f.bytes))
	for packed := f.bytes; len(packed) > 0; {
		found, size := binary.Uvarint(packed)
		if size <= 0 {
			return fmt.Errorf("found a number in field %d that is cut or longer than 10 bytes", f.number)
		}
		if err := place(found, f.number, &number); err != nil {
			return err
		}
		*into = append(*into, number)
		packed = packed[size:]
	}
	return nil
}

// packedNumbers counts numbers by their last bytes.
func packedNumbers(packed []byte) int {
	count := 0
	for _, each := range packed {
		if each < 0x80 {
			count++
		}
	}
	return count
}
