package callability_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/callability/callability/clients/go/callability"
)

type bundleVector struct {
	Name, File, Expected, Digest, Revision string
	// Flip is a byte and a bit in it, Keep a number of bytes, Append bytes in hexadecimal, and Pad a number of zero bytes.
	Flip             []int
	Keep             *int
	Append           string
	Pad              int
	Keys             *[]string
	OtherKeys        map[string]string `json:"other_keys"`
	AcceptedSequence uint64            `json:"accepted_sequence"`
	Rollback         bool
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	found, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func (v bundleVector) bundle(t *testing.T) []byte {
	t.Helper()
	bundle, err := os.ReadFile(vectors(t, "bundles", v.File))
	if err != nil {
		t.Fatal(err)
	}
	if v.Keep != nil {
		bundle = bundle[:*v.Keep]
	}
	if v.Flip != nil {
		bundle[v.Flip[0]] ^= byte(v.Flip[1])
	}
	bundle = append(bundle, unhex(t, v.Append)...)
	if v.Pad > 0 {
		bundle = append(bundle, make([]byte, v.Pad-min(v.Pad, len(bundle)))...)
	}
	return bundle
}

func (v bundleVector) options(t *testing.T, keys map[string]string) []callability.Option {
	t.Helper()
	var found []callability.Option
	trusted := map[string]ed25519.PublicKey{}
	if v.Keys != nil {
		for _, id := range *v.Keys {
			trusted[id] = unhex(t, keys[id])
		}
	}
	for id, key := range v.OtherKeys {
		trusted[id] = unhex(t, key)
	}
	if v.Keys != nil || v.OtherKeys != nil {
		found = append(found, callability.TrustKeys(trusted))
	}
	if !v.Rollback {
		found = append(found, callability.NotBefore(v.AcceptedSequence))
	}
	return found
}

// TestEveryVectorOfBundlesIsAcceptedOrRefusedAsItSays replays the vectors of docs/bundle.md.
func TestEveryVectorOfBundlesIsAcceptedOrRefusedAsItSays(t *testing.T) {
	text, err := os.ReadFile(vectors(t, "bundles", "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Keys    map[string]string
		Vectors []bundleVector
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&manifest); err != nil {
		t.Fatal(err)
	}
	for _, each := range manifest.Vectors {
		t.Run(each.Name, func(t *testing.T) {
			policy, err := callability.ReadPolicy(each.bundle(t), each.options(t, manifest.Keys)...)
			found := "accepted"
			var why *callability.BundleError
			if errors.As(err, &why) {
				found = why.Code()
			}
			if found != each.Expected || policy.Digest() != each.Digest || policy.Revision() != each.Revision {
				t.Errorf("found %s (%v), digest %s, wanted %s", found, err, policy.Digest(), each.Expected)
			}
		})
	}
}
