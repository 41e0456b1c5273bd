package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/callability/callability/clients/go"
	v1 "github.com/callability/callability/clients/go/remote/v1"
)

const (
	defaultMaxAge = time.Minute
	// defaultHeartbeat is for a service that does not state how often it says that nothing has changed.
	defaultHeartbeat = 30 * time.Second
	// renewal is how often the file is marked as confirmed.
	renewal = 5 * time.Second
)

// LocalOptions say how a Local keeps its policy.
type LocalOptions struct {
	// File keeps the last good bundle for a cold start; empty: it is not kept.
	File string
	// MaxAge is how long a policy is in effect after the last contact that confirmed it; by default one minute.
	MaxAge time.Duration
}

// A Local has the policy that the service serves. It is safe for concurrent use.
type Local struct {
	client  *Client
	options LocalOptions
	current atomic.Pointer[confirmed]
}

// A confirmed policy, and when a contact confirmed it last.
type confirmed struct {
	policy *callability.Policy
	at     time.Time
}

// NewLocal returns a Local that has the policy of its file, if that is not too old. Run it to follow the service. An error
// says why a file that is there is not used; the Local works without it.
func NewLocal(client *Client, options LocalOptions) (*Local, error) {
	if options.MaxAge <= 0 {
		options.MaxAge = defaultMaxAge
	}
	l := &Local{client: client, options: options}
	return l, l.readFile()
}

// Policy is the policy in effect; nil if there is none, or if no contact has confirmed it for longer than the stated age.
// A nil policy decides that nothing is callable.
func (l *Local) Policy() *callability.Policy {
	found := l.current.Load()
	if found == nil || time.Since(found.at) > l.options.MaxAge {
		return nil
	}
	return found.policy
}

// Age is how long ago a contact confirmed the policy; false if there is none.
func (l *Local) Age() (time.Duration, bool) {
	found := l.current.Load()
	if found == nil {
		return 0, false
	}
	return time.Since(found.at), true
}

// Run follows the service until the context ends, and returns its error. It begins again after every failure.
func (l *Local) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := l.follow(ctx); err != nil && ctx.Err() == nil {
			l.client.log(slog.LevelWarn, "policy_stream_lost", "error", err.Error())
			waitFor(ctx, pause)
		}
	}
	return ctx.Err()
}

// errSilent ends a stream on which nothing came for longer than the service had stated.
var errSilent = errors.New("no heartbeat in time")

func (l *Local) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(defaultHeartbeat, func() { cancel(errSilent) })
	defer silence.Stop()
	stream, err := v1.NewPolicyServiceClient(l.client).WatchPolicy(ctx, &v1.WatchPolicyRequest{BundleDigest: l.digest()})
	if err != nil {
		return err
	}
	for {
		message, err := stream.Recv()
		if err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		if err := l.take(message); err != nil {
			return err
		}
		heartbeat := defaultHeartbeat
		if seconds := message.GetHeartbeatSeconds(); seconds > 0 {
			heartbeat = time.Duration(seconds) * time.Second
		}
		silence.Reset(heartbeat + heartbeat/2)
	}
}

func (l *Local) digest() string {
	if found := l.current.Load(); found != nil {
		return found.policy.Digest()
	}
	return ""
}

// take puts the policy of a message into effect, or confirms the one that is.
func (l *Local) take(message *v1.WatchPolicyResponse) error {
	now := time.Now()
	before := l.current.Load()
	if len(message.GetBundle()) == 0 {
		if before == nil || before.policy.Digest() != message.GetBundleDigest() {
			l.current.CompareAndSwap(before, nil)
			return fmt.Errorf("the service confirms the bundle %.64q, which is not here", message.GetBundleDigest())
		}
		l.current.Store(&confirmed{before.policy, now})
		l.confirmFile(now)
		return nil
	}
	policy, err := callability.ReadPolicy(message.GetBundle())
	if err != nil {
		return err
	}
	if policy.Digest() != message.GetBundleDigest() {
		return fmt.Errorf("found the bundle %s, wanted %.64q", policy.Digest(), message.GetBundleDigest())
	}
	l.current.Store(&confirmed{policy, now})
	l.client.log(slog.LevelInfo, "policy_in_effect", "revision", policy.Revision())
	l.keep(message.GetBundle())
	return nil
}

// readFile takes the last good policy, whose age is counted by the wall clock. A clock that went back counts as too old.
func (l *Local) readFile() error {
	if l.options.File == "" {
		return nil
	}
	about, err := os.Stat(l.options.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	age := time.Now().Round(0).Sub(about.ModTime())
	if age < 0 || age > l.options.MaxAge {
		return fmt.Errorf("%s: found an age of %s, wanted 0 to %s", l.options.File, age.Round(time.Second), l.options.MaxAge)
	}
	policy, err := callability.ReadPolicyFile(l.options.File)
	if err != nil {
		return err
	}
	l.current.Store(&confirmed{policy, time.Now().Add(-age)})
	return nil
}

// keep writes a bundle beside its file, and then in its place. A disk that is full does not stop decisions.
func (l *Local) keep(bundle []byte) {
	if l.options.File == "" {
		return
	}
	err := write(l.options.File, bundle)
	if err != nil {
		l.client.log(slog.LevelError, "policy_not_kept", "file", l.options.File, "error", err.Error())
	}
}

func write(path string, data []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}

// confirmFile marks the file as confirmed, every few seconds.
func (l *Local) confirmFile(now time.Time) {
	if l.options.File == "" {
		return
	}
	about, err := os.Stat(l.options.File)
	if err == nil && now.Sub(about.ModTime()).Abs() < renewal {
		return
	}
	if err == nil {
		err = os.Chtimes(l.options.File, now, now)
	}
	if err != nil {
		l.client.log(slog.LevelError, "policy_not_kept", "file", l.options.File, "error", err.Error())
	}
}
