package callability

import (
	"errors"
	"fmt"
)

// The reasons for which a bundle is refused, one for each error code of docs/bundle.md. Compare with errors.Is.
var (
	ErrTooLarge             = errors.New("too-large")
	ErrNotABundle           = errors.New("not-a-bundle")
	ErrDamaged              = errors.New("damaged")
	ErrUnsupportedFormat    = errors.New("unsupported-format")
	ErrNotSigned            = errors.New("not-signed")
	ErrUnknownKey           = errors.New("unknown-key")
	ErrBadSignature         = errors.New("bad-signature")
	ErrUnsupportedSemantics = errors.New("unsupported-semantics")
	ErrOlderSequence        = errors.New("older-sequence")
	ErrInvalid              = errors.New("invalid")
)

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
	return e.reason.Error()
}

func (e *BundleError) Error() string {
	return fmt.Sprintf("bundle refused: %s [%s]", e.detail, e.Code())
}

func (e *BundleError) Unwrap() error { return e.reason }

func refuse(reason error, format string, arguments ...any) error {
	return &BundleError{reason, fmt.Sprintf(format, arguments...)}
}
