package callability

import (
	"errors"
	"fmt"
	"strings"
)

// The reasons for which a bundle is refused, one for each error code of docs/bundle.md. Compare with errors.Is.
var (
	ErrTooLarge             = errors.New(refused + "too-large")
	ErrNotABundle           = errors.New(refused + "not-a-bundle")
	ErrDamaged              = errors.New(refused + "damaged")
	ErrUnsupportedFormat    = errors.New(refused + "unsupported-format")
	ErrNotSigned            = errors.New(refused + "not-signed")
	ErrUnknownKey           = errors.New(refused + "unknown-key")
	ErrBadSignature         = errors.New(refused + "bad-signature")
	ErrUnsupportedSemantics = errors.New(refused + "unsupported-semantics")
	ErrOlderSequence        = errors.New(refused + "older-sequence")
	ErrInvalid              = errors.New(refused + "invalid")
)

const refused = "callability: bundle refused: "

// A BundleError says why a bundle was refused: what was found, and what was wanted.
// It matches the sentinel error of its reason.
type BundleError struct {
	reason error
	detail string
}

// Code is the error code of docs/bundle.md, such as `damaged`.
func (e *BundleError) Code() string {
	if e == nil || e.reason == nil {
		return ""
	}
	return strings.TrimPrefix(e.reason.Error(), refused)
}

func (e *BundleError) Error() string {
	return fmt.Sprintf("%s%s [%s]", refused, e.detail, e.Code())
}

func (e *BundleError) Unwrap() error { return e.reason }

func refuse(reason error, format string, arguments ...any) error {
	return &BundleError{reason, fmt.Sprintf(format, arguments...)}
}
