//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package records_test

import (
	"errors"
	"testing"

	"github.com/callability/callability/clients/go/records"
)

func TestThereAreNoRecordsOnThisSystem(t *testing.T) {
	if _, err := records.Open(t.TempDir(), records.Options{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("found %v, wanted %v", err, errors.ErrUnsupported)
	}
}
