package remote_test

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/remote"
	v1 "github.com/callability/callability/clients/go/remote/v1"
)

// A streaming service streams one bundle, and confirms it often.
type streaming struct {
	v1.UnimplementedPolicyServiceServer
	bundle []byte
	digest string
	// started and ended receive the time of each stream.
	started, ended chan time.Time
}

func (s *streaming) WatchPolicy(
	request *v1.WatchPolicyRequest, stream grpc.ServerStreamingServer[v1.WatchPolicyResponse],
) error {
	s.started <- time.Now()
	defer func() { s.ended <- time.Now() }()
	message := &v1.WatchPolicyResponse{BundleDigest: s.digest, HeartbeatSeconds: 1}
	if request.GetBundleDigest() != s.digest {
		message.Bundle = s.bundle
	}
	beat := time.NewTicker(100 * time.Millisecond)
	defer beat.Stop()
	for {
		if err := stream.Send(message); err != nil {
			return err
		}
		message = &v1.WatchPolicyResponse{BundleDigest: s.digest, HeartbeatSeconds: 1}
		select {
		case <-stream.Context().Done():
			return nil
		case <-beat.C:
		}
	}
}

// stream serves the shipped policy in this process.
func stream(t *testing.T) (service *streaming, address string) {
	t.Helper()
	bundle, err := os.ReadFile(filepath.Join("..", "shipped", "policy.bundle"))
	if err != nil {
		t.Skip("the shipped policy is in a checkout of the repository alone")
	}
	policy, err := callability.ReadPolicy(bundle)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	service = &streaming{
		bundle: bundle, digest: policy.Digest(), started: make(chan time.Time, 100), ended: make(chan time.Time, 100),
	}
	server := grpc.NewServer()
	v1.RegisterPolicyServiceServer(server, service)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return service, listener.Addr().String()
}

func received(t *testing.T, what string, from chan time.Time) time.Time {
	t.Helper()
	select {
	case found := <-from:
		return found
	case <-time.After(generous):
		t.Fatalf("%s did not happen within %s", what, generous)
		return time.Time{}
	}
}

func TestALocalPolicyIsConfirmedAgainAfterANetworkForgotItsConnection(t *testing.T) {
	service, address := stream(t)
	between, seen := relayTo(t, address), &recorder{}
	client, err := remote.Dial([]string{between.address()}, remote.WithHooks(seen.hooks()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	local := followed(t, client, remote.LocalOptions{MaxAge: time.Hour})
	received(t, "a stream", service.started)
	waitUntil(t, "a policy", func() bool { return local.Policy() != nil })
	between.forget()
	again := received(t, "another stream", service.started)
	waitUntil(t, "a confirmation by it", func() bool {
		age, found := local.Age()
		return found && age < time.Since(again)
	})
	if !seen.has(`msg=policy_stream_lost why="no message in time"`) {
		t.Errorf("found %s", seen.text())
	}
}

// TestAReplicaThatHangsIsLeftForAnother has one that accepts connections and says nothing, as a process that was stopped does.
func TestAReplicaThatHangsIsLeftForAnother(t *testing.T) {
	_, address := stream(t)
	hanging, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hanging.Close() })
	seen := &recorder{}
	client, err := remote.Dial([]string{address, hanging.Addr().String()}, remote.WithHooks(seen.hooks()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	local := followed(t, client, remote.LocalOptions{})
	waitUntil(t, "a policy", func() bool { return local.Policy() != nil })
	if !seen.has(`msg=policy_stream_lost why="no message in time"`) {
		t.Errorf("found %s", seen.text())
	}
}

// TestTheFileOfALocalIsWrittenAgain removes and replaces the file while the service confirms the policy.
func TestTheFileOfALocalIsWrittenAgain(t *testing.T) {
	service, address := stream(t)
	file := filepath.Join(t.TempDir(), "policy.bundle")
	followed(t, dial(t, address), remote.LocalOptions{File: file})
	isKept := func() bool {
		found, err := os.ReadFile(file)
		return err == nil && bytes.Equal(found, service.bundle)
	}
	waitUntil(t, "a file", isKept)
	other := []byte("an older bundle")
	for what, spoil := range map[string]func() error{
		"removed": func() error { return os.Remove(file) },
		"replaced": func() error {
			return errors.Join(os.WriteFile(file+".old", other, 0o600), os.Rename(file+".old", file))
		},
		"overwritten": func() error { return os.WriteFile(file, other, 0o600) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		waitUntil(t, "another write of the file that was "+what, isKept)
	}
}

func TestAKeptFileIsWrittenAgainAfterAColdStart(t *testing.T) {
	service, address := stream(t)
	file := filepath.Join(t.TempDir(), "policy.bundle")
	if err := os.WriteFile(file, service.bundle, 0o600); err != nil {
		t.Fatal(err)
	}
	local := remote.NewLocal(dial(t, address), remote.LocalOptions{File: file})
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	run(t, local)
	waitUntil(t, "another write of the file", func() bool {
		found, err := os.ReadFile(file)
		return err == nil && bytes.Equal(found, service.bundle)
	})
}

func TestAFileThatIsNotUsedIsReportedAndTheLocalWorks(t *testing.T) {
	service, address := stream(t)
	for what, spoilt := range map[string]struct {
		bundle []byte
		age    time.Duration
		wanted string
	}{
		"too old": {service.bundle, time.Hour, "level=WARN msg=bundle_unread why="},
		"damaged": {service.bundle[:len(service.bundle)/2], 0, "level=ERROR msg=bundle_refused code=damaged why="},
	} {
		file, log := filepath.Join(t.TempDir(), "policy.bundle"), &recorder{}
		before := time.Now().Add(-spoilt.age)
		if err := errors.Join(os.WriteFile(file, spoilt.bundle, 0o600), os.Chtimes(file, before, before)); err != nil {
			t.Fatal(err)
		}
		client, err := remote.Dial([]string{address}, remote.WithHooks(log.hooks()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		local := remote.NewLocal(client, remote.LocalOptions{File: file})
		if local.Policy() != nil || !log.has(spoilt.wanted) || !log.has(file) {
			t.Errorf("%s: found %s, wanted %s", what, log.text(), spoilt.wanted)
		}
		run(t, local)
		waitUntil(t, "a policy", func() bool { return local.Policy() != nil })
	}
}

func TestAClientThatIsClosedEndsTheRunOfItsLocal(t *testing.T) {
	service, address := stream(t)
	client := dial(t, address)
	local, ended := remote.NewLocal(client, remote.LocalOptions{}), make(chan error, 1)
	go func() { ended <- local.Run(t.Context()) }()
	waitUntil(t, "a policy", func() bool { return local.Policy() != nil })
	if err := local.Run(t.Context()); err == nil || errors.Is(err, remote.ErrClosed) {
		t.Errorf("a second Run at the same time: found %v", err)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	received(t, "the end of the stream", service.ended)
	select {
	case err := <-ended:
		if !errors.Is(err, remote.ErrClosed) {
			t.Errorf("found %v, wanted %v", err, remote.ErrClosed)
		}
	case <-time.After(generous):
		t.Fatal("Run did not end")
	}
	if err := local.Run(t.Context()); !errors.Is(err, remote.ErrClosed) {
		t.Errorf("after its client was closed: found %v, wanted %v", err, remote.ErrClosed)
	}
}
