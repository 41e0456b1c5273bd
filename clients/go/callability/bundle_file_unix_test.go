//go:build unix

package callability_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/callability/callability/clients/go/callability"
)

func TestABundleIsReadFromARegularFileAlone(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "policy.bundle")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, kind := range map[string]string{pipe: "a named pipe", t.TempDir(): "a directory", "/dev/zero": "a device"} {
		_, err := callability.ReadPolicyFile(path)
		if err == nil || !strings.HasSuffix(err.Error(), ": found "+kind+", wanted a regular file") {
			t.Errorf("%s: found %v", path, err)
		}
	}
}
