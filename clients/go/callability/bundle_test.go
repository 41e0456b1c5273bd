package callability_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/outcome"
)

// fields is a message as its writer puts it together: pairs of a number and a uint64, a string or bytes.
func fields(pairs ...any) []byte {
	var message []byte
	for place := 0; place < len(pairs); place += 2 {
		number := uint64(pairs[place].(int)) << 3
		switch value := pairs[place+1].(type) {
		case int:
			message = binary.AppendUvarint(binary.AppendUvarint(message, number), uint64(value))
		case string:
			message = append(binary.AppendUvarint(binary.AppendUvarint(message, number|2), uint64(len(value))), value...)
		case []byte:
			message = append(binary.AppendUvarint(binary.AppendUvarint(message, number|2), uint64(len(value))), value...)
		}
	}
	return message
}

func enveloped(payload []byte, more ...any) []byte {
	digest := sha256.Sum256(payload)
	return fields(append([]any{1, "callability bundle", 2, 1, 3, payload, 4, digest[:]}, more...)...)
}

func signed(payload []byte, keys map[string]ed25519.PrivateKey) []byte {
	digest := sha256.Sum256(payload)
	message := append([]byte("callability bundle signature v1\x00\x00\x00\x00\x01"), digest[:]...)
	var signatures []any
	for id, key := range keys {
		signatures = append(signatures, 5, fields(1, id, 2, ed25519.Sign(key, message)))
	}
	return enveloped(payload, signatures...)
}

// shippedPayload cuts the payload out of the bundle of the shipped policy.
func shippedPayload(t testing.TB) []byte {
	t.Helper()
	bundle, err := os.ReadFile("../shipped/policy.bundle")
	if err != nil {
		t.Fatal(err)
	}
	start := len(fields(1, "callability bundle", 2, 1))
	length, size := binary.Uvarint(bundle[start+1:])
	payload := bundle[start+1+size:][:length]
	if !bytes.Equal(enveloped(payload), bundle) {
		t.Fatal("the bundle has other bytes than this test writes")
	}
	return payload
}

func generated(t testing.TB) (ed25519.PublicKey, ed25519.PrivateKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return public, private
}

func refused(t *testing.T, wanted error, bundle []byte, options ...callability.Option) {
	t.Helper()
	policy, err := callability.ReadPolicy(bundle, options...)
	var why *callability.BundleError
	if !errors.Is(err, wanted) || !errors.As(err, &why) || "callability: bundle refused: "+why.Code() != wanted.Error() || policy != nil {
		t.Errorf("found %v, wanted %v", err, wanted)
	}
}

func TestABundleIsRefusedAtTheFirstCheckThatFails(t *testing.T) {
	payload := shippedPayload(t)
	good := enveloped(payload)
	changed := func(pairs ...any) []byte { return enveloped(append(bytes.Clone(payload), fields(pairs...)...)) }
	refused(t, callability.ErrTooLarge, make([]byte, callability.MaxBundleBytes+1))
	refused(t, callability.ErrNotABundle, nil)
	refused(t, callability.ErrNotABundle, []byte("rules:\n"))
	refused(t, callability.ErrDamaged, good[:len(good)-1])
	refused(t, callability.ErrUnsupportedFormat, append(bytes.Clone(good), fields(2, 2)...))
	refused(t, callability.ErrDamaged, append(bytes.Clone(good), fields(4, "not this one")...))
	refused(t, callability.ErrDamaged, append(bytes.Clone(good), fields(1, "another beginning")...))
	refused(t, callability.ErrInvalid, enveloped(payload[:len(payload)-1]))
	refused(t, callability.ErrUnsupportedSemantics, enveloped(nil))
	refused(t, callability.ErrUnsupportedSemantics, changed(2, 3))
	refused(t, callability.ErrOlderSequence, changed(3, 6), callability.NotBefore(7))
	refused(t, callability.ErrInvalid, changed(1, strings.Repeat("A", 64)))
	refused(t, callability.ErrInvalid, changed(5, fields(1, "callability")))
}

func TestOneSignatureByATrustedKeyIsEnoughAndNothingElseIs(t *testing.T) {
	payload := shippedPayload(t)
	public, private := generated(t)
	other, stranger := generated(t)
	trusted := callability.TrustKeys(map[string]ed25519.PublicKey{"2026": public})
	rotation := callability.TrustKeys(map[string]ed25519.PublicKey{"2026": public, "2027": other})

	refused(t, callability.ErrNotSigned, enveloped(payload), trusted)
	refused(t, callability.ErrNotSigned, enveloped(payload), callability.TrustKeys(nil))
	refused(t, callability.ErrUnknownKey, signed(payload, map[string]ed25519.PrivateKey{"2027": stranger}), trusted)
	refused(t, callability.ErrBadSignature, signed(payload, map[string]ed25519.PrivateKey{"2026": stranger}), trusted)
	both := signed(payload, map[string]ed25519.PrivateKey{"2026": private, "2027": stranger})
	for _, options := range [][]callability.Option{nil, {trusted}, {rotation}} {
		if _, err := callability.ReadPolicy(both, options...); err != nil {
			t.Error(err)
		}
	}
}

// TestNoFlippedBitAndNoCutIsAccepted tries bytes all over the file: the digest, or the checks before it, find each change.
func TestNoFlippedBitAndNoCutIsAccepted(t *testing.T) {
	good := enveloped(shippedPayload(t))
	random := rand.New(rand.NewPCG(3, 5))
	for place := 0; place < len(good); place += 1 + place/100 {
		flipped := bytes.Clone(good)
		flipped[place] ^= 1 << random.IntN(8)
		if _, err := callability.ReadPolicy(flipped); err == nil {
			t.Errorf("a flipped bit in byte %d is accepted", place)
		}
		if _, err := callability.ReadPolicy(good[:place]); err == nil {
			t.Errorf("the first %d bytes are accepted", place)
		}
	}
}

// TestADamagedPayloadNeverDecidesOutsideItsTables gives every flipped payload a digest of its own, as a hostile publisher
// without a demanded signature can.
func TestADamagedPayloadNeverDecidesOutsideItsTables(t *testing.T) {
	payload := shippedPayload(t)
	agent := callability.NewAgent(callability.AgentFacts{Name: "assistant"})
	tool := callability.NewServer("git", callability.ServerFacts{}).Tool("git_log", callability.ToolFacts{})
	accepted := 0
	for place := 0; place < len(payload); place += 5 {
		flipped := bytes.Clone(payload)
		flipped[place] ^= 1 << (place % 8)
		policy, err := callability.ReadPolicy(enveloped(flipped))
		if err != nil {
			continue
		}
		accepted++
		verdict := policy.Decide(agent, tool)
		_, _, _ = verdict.Unread(), verdict.Words(), verdict.Retry()
	}
	if accepted == 0 {
		t.Error("no flipped payload is well-formed: the test shows nothing")
	}
}

func TestAStoreSwapsWholePoliciesAndRefusesOlderOnes(t *testing.T) {
	var store callability.PolicyStore
	if store.Load() != nil {
		t.Error("a new store has a policy")
	}
	payload := shippedPayload(t)
	numbered := func(sequence int) []byte { return enveloped(append(bytes.Clone(payload), fields(3, sequence)...)) }
	if err := store.Replace(numbered(5)); err != nil {
		t.Fatal(err)
	}
	five := store.Load()
	if err := store.Replace(numbered(4)); !errors.Is(err, callability.ErrOlderSequence) || store.Load() != five {
		t.Errorf("found %v, and sequence %d in effect", err, store.Load().Sequence())
	}
	if err := store.Replace([]byte("damaged")); !errors.Is(err, callability.ErrNotABundle) || store.Load() != five {
		t.Errorf("found %v, and sequence %d in effect", err, store.Load().Sequence())
	}
	older, err := callability.ReadPolicy(numbered(4))
	if err != nil {
		t.Fatal(err)
	}
	if before := store.Swap(older); before != five || store.Load() != older {
		t.Error("a rollback that is asked for does not take effect")
	}
}

func TestAStoreRefusesWhatIsOlderThanItsOptionsDemand(t *testing.T) {
	store := callability.PolicyStore{Options: []callability.Option{callability.NotBefore(12), callability.NotBefore(4)}}
	five := enveloped(append(shippedPayload(t), fields(3, 5)...))
	if err := store.Replace(five); !errors.Is(err, callability.ErrOlderSequence) || store.Load() != nil {
		t.Errorf("found %v, and sequence %d in effect", err, store.Load().Sequence())
	}
	store.Options = store.Options[1:]
	if err := store.Replace(five); err != nil {
		t.Error(err)
	}
}

func TestAFileThatIsRefusedIsNamed(t *testing.T) {
	path := t.TempDir() + "/policy.bundle"
	if err := os.WriteFile(path, []byte("rules:\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := callability.ReadPolicyFile(path)
	if !errors.Is(err, callability.ErrNotABundle) || !strings.Contains(err.Error(), path) {
		t.Errorf("found %v", err)
	}
	shipped, err := os.ReadFile("../shipped/policy.bundle")
	if err == nil {
		err = os.WriteFile(path, shipped[:3000], 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = callability.ReadPolicyFile(path)
	if wanted := path + ": callability: bundle refused: it is cut off or damaged (3000 bytes); copy or build it again [damaged]"; err.Error() != wanted {
		t.Errorf("found %v, wanted %s", err, wanted)
	}
	if _, err := callability.ReadPolicyFile(path + ".missing"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("found %v", err)
	}
}

// FuzzReadPolicy gives each input a digest, so that the fuzzer reaches the payload.
func FuzzReadPolicy(f *testing.F) {
	payload := shippedPayload(f)
	f.Add(payload)
	f.Add(payload[:len(payload)/2])
	f.Add([]byte{})
	agent := callability.NewAgent(callability.AgentFacts{Name: "assistant", Labels: callability.Labels{"team": "web"}})
	server := callability.NewServer("git", callability.ServerFacts{Enabled: callability.True, Quarantined: callability.False})
	tool := server.Tool("git_log", callability.ToolFacts{ConfigDenied: callability.False, Approval: callability.NoRecord()})
	f.Fuzz(func(t *testing.T, payload []byte) {
		if _, err := callability.ReadPolicy(payload); err == nil && !bytes.HasPrefix(payload, []byte("\n\x12callability bundle")) {
			t.Error("what is no bundle is accepted")
		}
		policy, err := callability.ReadPolicy(enveloped(payload))
		if err != nil {
			return
		}
		for _, each := range []*callability.Tool{tool, nil} {
			verdict := policy.Decide(agent, each)
			_, _, _, _ = verdict.Unread(), verdict.Words(), verdict.Retry(), verdict.Err()
		}
		_ = outcome.ClassifyLoad(policy, outcome.LoadFacts{HTTPStatus: 503, TriesLeft: 1})
		_ = outcome.ClassifyEnable(policy, outcome.EnableFacts{Known: callability.True, Ended: outcome.EndConnected})
	})
}

func TestAnAxisOfOneFactWithoutAPointForAReadingIsRefused(t *testing.T) {
	payload := shippedPayload(t)
	// The axis of the first fact, with a point for each of its three readings.
	axis := fields(1, []byte{0}, 2, []byte{0, 1, 2})
	if bytes.Count(payload, axis) == 0 {
		t.Fatal("the shipped policy has no such axis")
	}
	_, err := callability.ReadPolicy(enveloped(bytes.Replace(payload, axis, fields(1, []byte{0}, 2, []byte{0, 1, 1}), 1)))
	if err == nil || !strings.Contains(err.Error(), "points for 2 readings") {
		t.Errorf("found %v", err)
	}
}
