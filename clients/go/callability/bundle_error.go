package callability

import (
	"errors"
	"fmt"
	"strings"
)

// The reasons for which a bundle is refused, one for each error code. Compare with errors.Is.
var (
	// ErrTooLarge: it has more than MaxBundleBytes.
	ErrTooLarge = errors.New(refused + "too-large")
	// ErrNotABundle: it does not begin as a bundle does.
	ErrNotABundle = errors.New(refused + "not-a-bundle")
	// ErrDamaged: its envelope is not well-formed, or its digest is not that of its payload.
	ErrDamaged = errors.New(refused + "damaged")
	// ErrUnsupportedFormat: its envelope has the format of another version.
	ErrUnsupportedFormat = errors.New(refused + "unsupported-format")
	// ErrNotSigned: TrustKeys demands a signature, and there is none.
	ErrNotSigned = errors.New(refused + "not-signed")
	// ErrUnknownKey: no signature is by a key of TrustKeys.
	ErrUnknownKey = errors.New(refused + "unknown-key")
	// ErrBadSignature: no signature by a key of TrustKeys is valid.
	ErrBadSignature = errors.New(refused + "bad-signature")
	// ErrUnsupportedSemantics: its facts and rules mean what another version of this package implements; see Semantics.
	ErrUnsupportedSemantics = errors.New(refused + "unsupported-semantics")
	// ErrOlderSequence: its sequence number is lower than NotBefore demands, or than that of the policy in effect.
	ErrOlderSequence = errors.New(refused + "older-sequence")
	// ErrInvalid: its content contradicts itself.
	ErrInvalid = errors.New(refused + "invalid")
)

const refused = "callability: bundle refused: "

// A BundleError says why a bundle was refused: what was found, and what was wanted.
// It matches the sentinel error of its reason.
type BundleError struct {
	reason error
	detail string
}

// Code is the error code, such as `damaged`.
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
