package callability

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/callability/callability/clients/go/internal/regular"
)

const (
	// MaxBundleBytes is how large a bundle may be: 15 MiB, so that it fits in a message of the contract.
	MaxBundleBytes = 15_728_640
	// Semantics is the version of what facts and rules mean that this package implements.
	Semantics = 2

	bundleMagic   = "callability bundle"
	bundleFormat  = 1
	maxSignatures = 8
	maxKeyIDBytes = 128
	signedPrefix  = "callability bundle signature v1\x00"
)

// An Option says what is demanded of a bundle.
type Option func(*demands)

type demands struct {
	keys     map[string]ed25519.PublicKey
	sequence uint64
}

// TrustKeys accepts only bundles that are signed by one of these keys, which are found by their ids.
// Keep two keys during a rotation. An empty map accepts no bundle.
func TrustKeys(keys map[string]ed25519.PublicKey) Option {
	trusted := make(map[string]ed25519.PublicKey, len(keys))
	for id, key := range keys {
		trusted[id] = slices.Clone(key)
	}
	return func(d *demands) { d.keys = trusted }
}

// NotBefore refuses a bundle whose sequence number is lower. Leave it out to allow a rollback. If it is given several times,
// the highest number counts.
func NotBefore(sequence uint64) Option {
	return func(d *demands) { d.sequence = max(d.sequence, sequence) }
}

// ReadPolicy reads a bundle, such as one from go:embed, and checks all of it. The bundle is untrusted input until then.
// The policy does not refer to the bytes afterwards. An error is a *[BundleError].
func ReadPolicy(bundle []byte, options ...Option) (*Policy, error) {
	var wanted demands
	for _, option := range options {
		option(&wanted)
	}
	if len(bundle) > MaxBundleBytes {
		return nil, refuse(ErrTooLarge, "found %d bytes, wanted at most %d", len(bundle), MaxBundleBytes)
	}
	envelope, err := readEnvelope(bundle)
	if err != nil {
		return nil, err
	}
	if wanted.keys != nil {
		if err := envelope.checkSignatures(wanted.keys); err != nil {
			return nil, err
		}
	}
	payload, err := readPayload(envelope.payload)
	if err != nil {
		return nil, refuse(ErrInvalid, "%v", err)
	}
	if payload.semantics != Semantics {
		return nil, refuse(ErrUnsupportedSemantics, "found semantics %d, wanted %d", payload.semantics, Semantics)
	}
	if payload.sequence < wanted.sequence {
		return nil, refuse(ErrOlderSequence, "found sequence %d, wanted at least %d", payload.sequence, wanted.sequence)
	}
	if err := payload.check(); err != nil {
		return nil, refuse(ErrInvalid, "%v", err)
	}
	return newPolicy(payload, envelope.digest), nil
}

// ReadPolicyFile reads a bundle from a regular file. An error wraps a *[BundleError], or is one of the file.
func ReadPolicyFile(path string, options ...Option) (*Policy, error) {
	file, _, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	bundle, err := io.ReadAll(io.LimitReader(file, MaxBundleBytes+1))
	if err != nil {
		return nil, err
	}
	policy, err := ReadPolicy(bundle, options...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return policy, nil
}

type envelope struct {
	magic      string
	format     int32
	payload    []byte
	digest     []byte
	signatures []signature
}

type signature struct {
	keyID string
	bytes []byte
}

func readEnvelope(bundle []byte) (*envelope, error) {
	prefix := append([]byte{0x0a, byte(len(bundleMagic))}, bundleMagic...)
	if !bytes.HasPrefix(bundle, prefix) {
		return nil, refuse(ErrNotABundle, "it does not start as a bundle; `callability bundle build` makes one of a policy")
	}
	var e envelope
	if err := eachField(bundle, e.field); err != nil {
		return nil, refuse(ErrDamaged, "it is cut off or damaged (%d bytes); copy or build it again", len(bundle))
	}
	digest := sha256.Sum256(e.payload)
	switch {
	case e.format != bundleFormat:
		return nil, refuse(ErrUnsupportedFormat, "found format %d, wanted %d", e.format, bundleFormat)
	case e.magic != bundleMagic:
		return nil, refuse(ErrDamaged, "it has a second beginning; copy or build it again")
	case !bytes.Equal(e.digest, digest[:]):
		return nil, refuse(ErrDamaged, "its content has changed since it was built; copy or build it again")
	case len(e.signatures) > maxSignatures:
		return nil, refuse(ErrDamaged, "found more than %d signatures", maxSignatures)
	}
	return &e, nil
}

func (e *envelope) field(f wireField) error {
	switch f.number {
	case 1:
		return f.text(&e.magic)
	case 2:
		return f.number31(&e.format)
	case 3:
		e.payload = f.bytes
		return f.wanted(wireBytes)
	case 4:
		e.digest = f.bytes
		return f.wanted(wireBytes)
	case 5:
		var s signature
		if err := single(f, s.field); err != nil {
			return err
		}
		if len(e.signatures) <= maxSignatures {
			e.signatures = append(e.signatures, s)
		}
	}
	return nil
}

func (s *signature) field(f wireField) error {
	switch f.number {
	case 1:
		return f.text(&s.keyID)
	case 2:
		s.bytes = f.bytes
		return f.wanted(wireBytes)
	}
	return nil
}

func (e *envelope) checkSignatures(keys map[string]ed25519.PublicKey) error {
	if len(e.signatures) == 0 {
		return refuse(ErrNotSigned, "found no signature, wanted one by a key that is trusted")
	}
	message := binary.BigEndian.AppendUint32([]byte(signedPrefix), bundleFormat)
	message = append(message, e.digest...)
	known := false
	for _, each := range e.signatures {
		key, ok := keys[each.keyID]
		if !ok || len(key) != ed25519.PublicKeySize || len(each.keyID) > maxKeyIDBytes {
			continue
		}
		if ed25519.Verify(key, message, each.bytes) {
			return nil
		}
		known = true
	}
	if known {
		return refuse(ErrBadSignature, "no signature by a trusted key is valid")
	}
	return refuse(ErrUnknownKey, "found no signature by a key that is trusted, of %d in all", len(e.signatures))
}
