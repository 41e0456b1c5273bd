package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/internal/regular"
	v1 "github.com/callability/callability/clients/go/remote/v1"
)

const (
	defaultMaxAge = time.Minute
	// defaultHeartbeat is for a service that does not state how often it says that nothing has changed.
	defaultHeartbeat = 30 * time.Second
	// firstMessage is how long a replica may take to its first message, the time to connect included: another may serve.
	firstMessage = 5 * time.Second
	// renewal is how often the file is marked as confirmed.
	renewal = 5 * time.Second
	// maxPause is the longest wait before the service is followed again.
	maxPause = 2 * time.Second
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
	tooOld  atomic.Bool
	running atomic.Bool
	// refused is the digest of the bundle that was refused last, which is reported once. Only Run uses it.
	refused string
	// bundle is the one in effect, for its file. Only Run uses it.
	bundle []byte
	// written describes the file as it was written or marked last; nil: it could not be written. Only Run uses it.
	written fs.FileInfo
}

// A confirmed policy, and when a contact confirmed it last.
type confirmed struct {
	policy *callability.Policy
	at     time.Time
}

// age is the greater of what the clock of the process says, which stops while the machine sleeps, and the wall clock.
func (c *confirmed) age() time.Duration {
	now := time.Now()
	return max(now.Sub(c.at), now.Round(0).Sub(c.at.Round(0)))
}

// NewLocal returns a Local that has the policy of its file, if that is not too old. [Local.Run] follows the service. The
// hooks of the client receive why a file that is there is not used; the Local works without it.
func NewLocal(client *Client, options LocalOptions) *Local {
	if options.MaxAge <= 0 {
		options.MaxAge = defaultMaxAge
	}
	l := &Local{client: client, options: options}
	if err := l.readFile(); err != nil {
		l.reportUnused(err)
	}
	return l
}

// Policy is the policy in effect; nil if there is none, or if no contact has confirmed it for longer than the stated age.
// A nil policy decides that nothing is callable.
func (l *Local) Policy() *callability.Policy {
	found := l.current.Load()
	if found == nil {
		return nil
	}
	if found.age() > l.options.MaxAge {
		if !l.tooOld.Swap(true) {
			l.hooks().Error(context.Background(), "policy_too_old", "max_age_seconds", l.options.MaxAge.Seconds())
		}
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
	return found.age(), true
}

// Run follows the service until the context ends, and returns its error, or until the client is closed, and returns
// [ErrClosed]. It begins again after every failure. A second Run at the same time is refused with an error.
func (l *Local) Run(ctx context.Context) error {
	if l.running.Swap(true) {
		return errRunning
	}
	defer l.running.Store(false)
	following, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.client.life, cancel)()
	wait := pause
	for following.Err() == nil {
		before := l.current.Load()
		if err := l.follow(following); err != nil && following.Err() == nil {
			l.hooks().Warn(ctx, "policy_stream_lost", "why", err.Error())
			if wait = min(2*wait, maxPause); l.current.Load() != before {
				wait = pause
			}
			waitFor(following, wait)
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return ErrClosed
}

func (l *Local) hooks() callability.Hooks { return l.client.settings.hooks }

// errSilent ends a stream on which nothing came at first, or for longer than the service had stated.
var errSilent = errors.New("no message in time")

// errRunning refuses a second Run: both would write the file, and count what they confirm.
var errRunning = errors.New("remote: found a Run of this Local under way, wanted one at a time")

// follow reads one stream to its end. It has a connection of its own: one that a network dropped silently is not used again.
func (l *Local) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(firstMessage, func() { cancel(errSilent) })
	defer silence.Stop()
	connection, err := l.client.connect()
	if err != nil {
		return err
	}
	defer connection.Close()
	stream, err := v1.NewPolicyServiceClient(connection).WatchPolicy(ctx, &v1.WatchPolicyRequest{BundleDigest: l.digest()})
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	for {
		message, err := stream.Recv()
		if err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
		if err := l.take(ctx, message); err != nil {
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

// take puts the policy of a message into effect, or confirms the one that is. A bundle that is refused changes nothing.
func (l *Local) take(ctx context.Context, message *v1.WatchPolicyResponse) error {
	if len(message.GetBundle()) > 0 {
		l.accept(ctx, message)
		return nil
	}
	before := l.current.Load()
	if before == nil || before.policy.Digest() != message.GetBundleDigest() {
		return fmt.Errorf("the service confirms the bundle %.64q, which is not here", message.GetBundleDigest())
	}
	now := time.Now()
	l.confirm(ctx, before.policy, now)
	l.confirmFile(ctx, now)
	return nil
}

func (l *Local) accept(ctx context.Context, message *v1.WatchPolicyResponse) {
	policy, err := callability.ReadPolicy(message.GetBundle())
	code := "damaged"
	if refused := (*callability.BundleError)(nil); errors.As(err, &refused) {
		code = refused.Code()
	}
	if err == nil && policy.Digest() != message.GetBundleDigest() {
		err = fmt.Errorf("found the bundle %s, wanted %.64q", policy.Digest(), message.GetBundleDigest())
	}
	if err != nil {
		if l.refused != message.GetBundleDigest() {
			l.refused = message.GetBundleDigest()
			l.reportRefused(ctx, code, err)
		}
		return
	}
	l.refused = ""
	l.confirm(ctx, policy, time.Now())
	l.hooks().Info(ctx, "policy_accepted", "revision", policy.Revision(), "sequence", policy.Sequence())
	l.keep(ctx, message.GetBundle())
}

func (l *Local) reportRefused(ctx context.Context, code string, why error) {
	l.hooks().Error(ctx, "bundle_refused", "code", code, "why", why.Error())
	l.hooks().Measure("callability_client_bundles_refused_total", 1, "code", code)
}

// reportUnused reports why the file is not used at a cold start.
func (l *Local) reportUnused(why error) {
	if refused := (*callability.BundleError)(nil); errors.As(why, &refused) {
		l.reportRefused(context.Background(), refused.Code(), why)
		return
	}
	l.hooks().Warn(context.Background(), "bundle_unread", "why", why.Error())
}

func (l *Local) confirm(ctx context.Context, policy *callability.Policy, now time.Time) {
	l.current.Store(&confirmed{policy, now})
	if l.tooOld.Swap(false) {
		l.hooks().Info(ctx, "policy_confirmed")
	}
	l.hooks().Measure("callability_client_policy_age_seconds", 0)
}

// readFile takes the last good policy, whose age is counted by the wall clock. A clock that went back counts as too old.
func (l *Local) readFile() error {
	if l.options.File == "" {
		return nil
	}
	file, about, err := regular.Open(l.options.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	age := time.Now().Round(0).Sub(about.ModTime())
	if age < 0 || age > l.options.MaxAge {
		return fmt.Errorf("%s: found an age of %s, wanted 0 to %s", l.options.File, age.Round(time.Second), l.options.MaxAge)
	}
	bundle, err := io.ReadAll(io.LimitReader(file, callability.MaxBundleBytes+1))
	if err != nil {
		return err
	}
	policy, err := callability.ReadPolicy(bundle)
	if err != nil {
		return fmt.Errorf("%s: %w", l.options.File, err)
	}
	l.bundle, l.written = bundle, about
	l.current.Store(&confirmed{policy, time.Now().Add(-age)})
	return nil
}

// keep writes a bundle beside its file, and then in its place. A disk that is full does not stop decisions.
func (l *Local) keep(ctx context.Context, bundle []byte) {
	if l.options.File == "" {
		return
	}
	about, err := write(l.options.File, bundle)
	l.bundle, l.written = bundle, about
	if err != nil {
		l.hooks().Warn(ctx, "bundle_not_kept", "why", err.Error())
	}
}

// write replaces a regular file, and nothing else: in place of a device, every program would read the bundle.
func write(path string, data []byte) (fs.FileInfo, error) {
	if before, err := os.Stat(path); err == nil {
		if err := regular.Check(path, before); err != nil {
			return nil, err
		}
	}
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return nil, err
	}
	_, err = file.Write(data)
	err = errors.Join(err, file.Sync())
	about, unread := file.Stat()
	if err = errors.Join(err, unread, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(file.Name()))
	}
	return about, nil
}

// confirmFile marks the file as confirmed, every few seconds. If it is not the one that was written, it is written again.
func (l *Local) confirmFile(ctx context.Context, now time.Time) {
	if l.options.File == "" {
		return
	}
	about, err := os.Stat(l.options.File)
	isOurs := err == nil && l.written != nil && isUnchanged(about, l.written)
	if isOurs && now.Sub(about.ModTime()).Abs() < renewal {
		return
	}
	if !isOurs || l.mark(now) != nil {
		l.keep(ctx, l.bundle)
	}
}

func isUnchanged(now, before fs.FileInfo) bool {
	return os.SameFile(now, before) && now.Size() == before.Size() && now.ModTime().Equal(before.ModTime())
}

// mark gives the file the time of a confirmation.
func (l *Local) mark(now time.Time) error {
	if err := os.Chtimes(l.options.File, now, now); err != nil {
		return err
	}
	about, err := os.Stat(l.options.File)
	if err == nil {
		l.written = about
	}
	return err
}
