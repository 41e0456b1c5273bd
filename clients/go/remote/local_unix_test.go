//go:build unix

package remote_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/callability/callability/clients/go/remote"
)

func TestALocalNeitherReadsNorReplacesWhatIsNoRegularFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "kept.bundle")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	service, address := stream(t)
	log := &recorder{}
	client, err := remote.Dial([]string{address}, remote.WithHooks(log.hooks()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	local := remote.NewLocal(client, remote.LocalOptions{File: pipe})
	if !log.has("level=WARN msg=bundle_unread why=") || !log.has(": found a named pipe, wanted a regular file") {
		t.Errorf("found %s", log.text())
	}
	go func() { _ = local.Run(t.Context()) }()
	received(t, "stream", service.started)
	waitUntil(t, "a bundle that is not kept", func() bool { return log.has("bundle_not_kept") })
	if local.Policy() == nil {
		t.Error("found no policy, although the service streams one")
	}
	if about, err := os.Stat(pipe); err != nil || about.Mode()&fs.ModeNamedPipe == 0 {
		t.Errorf("found %v, %v", about, err)
	}
}
