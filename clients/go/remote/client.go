package remote

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/callability/callability/clients/go/callability"
	v1 "github.com/callability/callability/clients/go/remote/v1"
)

const (
	defaultAttempt = 2 * time.Second
	pause          = 500 * time.Millisecond
	// unsupported is how long to wait if a replica has no health service.
	unsupported = time.Minute
	// connectTimeout is that of gRPC.
	connectTimeout = 20 * time.Second
)

// reconnect tries a replica again soon, however long it was away: gRPC's own pauses grow to two minutes.
var reconnect = backoff.Config{
	BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond,
}

// alive finds a connection that a network dropped silently. A server takes more than one ping in five minutes for abuse.
var alive = keepalive.ClientParameters{Time: 310 * time.Second, Timeout: 10 * time.Second}

// ErrUnavailable says that there is no answer: no replica decided in time, or the service refuses the caller. Nothing is
// called then: see [callability.Unavailable].
var ErrUnavailable = errors.New("remote: the policy service gave no answer")

// ErrInsecure says that an address is not on this machine, and no credentials were given.
var ErrInsecure = errors.New("remote: an address that is not on this machine needs credentials")

// ErrClosed says that the client was closed.
var ErrClosed = errors.New("remote: the client is closed")

// An Option changes how a client reaches the service.
type Option func(*settings)

type settings struct {
	attempt   time.Duration
	transport credentials.TransportCredentials
	dial      []grpc.DialOption
	hooks     callability.Hooks
}

// WithAttemptTimeout sets the deadline of each attempt; by default 2 s.
func WithAttemptTimeout(timeout time.Duration) Option {
	return func(s *settings) { s.attempt = timeout }
}

// WithTransportCredentials speaks TLS. Without it, addresses must be on this machine.
func WithTransportCredentials(transport credentials.TransportCredentials) Option {
	return func(s *settings) { s.transport = transport }
}

// WithToken sends a token with every call, such as one that is renewed.
func WithToken(token credentials.PerRPCCredentials) Option {
	return func(s *settings) { s.dial = append(s.dial, grpc.WithPerRPCCredentials(token)) }
}

// WithDialOptions adds options of gRPC to each connection, such as the stats handler of an instrumentation.
func WithDialOptions(options ...grpc.DialOption) Option {
	options = slices.Clone(options)
	return func(s *settings) { s.dial = append(s.dial, options...) }
}

// WithHooks reports what the client does.
func WithHooks(hooks callability.Hooks) Option { return func(s *settings) { s.hooks = hooks } }

// A Client asks the replicas of a service. It is safe for concurrent use. Close it.
type Client struct {
	settings  settings
	addresses []string
	channels  []*grpc.ClientConn
	rotation  *rotation
	// suspects wake the watch of a replica that did not answer a call.
	suspects []chan struct{}
	// life ends when the client is closed.
	life    context.Context
	end     context.CancelFunc
	watches sync.WaitGroup
	closing sync.Once
	// closed is what Close returns.
	closed error
}

var _ grpc.ClientConnInterface = (*Client)(nil)

// Dial begins to connect to the replicas at some addresses, and to watch their health. It does not wait for them.
func Dial(addresses []string, options ...Option) (*Client, error) {
	c := &Client{settings: settings{attempt: defaultAttempt}, addresses: slices.Clone(addresses)}
	for _, option := range options {
		option(&c.settings)
	}
	if len(addresses) == 0 || c.settings.attempt <= 0 {
		return nil, fmt.Errorf("remote: found %d addresses and an attempt of %s, wanted at least one and more than 0",
			len(addresses), c.settings.attempt)
	}
	for _, address := range addresses {
		channel, err := c.dial(address)
		if err != nil {
			return nil, errors.Join(err, c.closeChannels())
		}
		c.channels = append(c.channels, channel)
	}
	c.rotation = newRotation(len(addresses))
	c.life, c.end = context.WithCancel(context.Background())
	for range c.channels {
		c.suspects = append(c.suspects, make(chan struct{}, 1))
	}
	for replica := range c.channels {
		c.watches.Add(1)
		go func() {
			defer c.watches.Done()
			c.watch(c.life, replica)
		}()
	}
	return c, nil
}

func (c *Client) dial(address string) (*grpc.ClientConn, error) {
	transport := c.settings.transport
	options := []grpc.DialOption{
		// The answer about 20,000 tools, and a bundle, have more than the 4 MiB that gRPC accepts by default.
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: connectTimeout}),
		grpc.WithKeepaliveParams(alive),
	}
	if isLocal(address) {
		// No proxy of the environment leads to this machine.
		options = append(options, grpc.WithNoProxy())
	} else if transport == nil {
		return nil, fmt.Errorf("%w: found %q", ErrInsecure, address)
	}
	if transport == nil {
		transport = insecure.NewCredentials()
	}
	options = append(options, grpc.WithTransportCredentials(transport))
	return grpc.NewClient(address, append(options, c.settings.dial...)...)
}

func isLocal(address string) bool {
	if strings.HasPrefix(address, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Close ends the calls under way, the watches and the connections, and waits for the goroutines of the client. It does so
// once: again, it returns what it did.
func (c *Client) Close() error {
	c.closing.Do(func() {
		c.end()
		c.closed = c.closeChannels()
		c.watches.Wait()
	})
	return c.closed
}

func (c *Client) closeChannels() error {
	var failed []error
	for _, channel := range c.channels {
		failed = append(failed, channel.Close())
	}
	return errors.Join(failed...)
}

// States are the states of the replicas, by address.
func (c *Client) States() map[string]ReplicaState {
	found := map[string]ReplicaState{}
	for replica, address := range c.addresses {
		found[address] = c.rotation.state(replica)
	}
	return found
}

// Check decides about one tool, for the call path. An error wraps [ErrUnavailable], or is a refusal of the request as
// invalid (codes.InvalidArgument).
func (c *Client) Check(ctx context.Context, agent *callability.Agent, tool *callability.Tool) (callability.Answer, error) {
	reply, err := v1.NewCallabilityServiceClient(c).CheckTool(ctx, CheckRequest(agent, tool))
	if err != nil {
		return callability.Answer{}, err
	}
	return AnswerOf(reply), nil
}

// Invoke makes a call by two attempts at most, each with a deadline of its own and to a replica of its own. An error is that
// of Check.
func (c *Client) Invoke(ctx context.Context, method string, request, reply any, options ...grpc.CallOption) (err error) {
	name, hooks := path.Base(method), c.settings.hooks
	started := time.Now()
	ctx, end := hooks.Start(ctx, "callability."+name)
	defer func() {
		end(err)
		hooks.Measure("callability_client_call_seconds", time.Since(started).Seconds(), "method", name, "outcome", outcomeOf(ctx, err))
	}()
	var first error
	for _, each := range c.rotation.attempts() {
		err = c.attempt(ctx, each, method, request, reply, options)
		code := status.Code(err)
		hooks.Measure("callability_client_attempts_total", 1, "method", name, "replica", c.addresses[each.replica], "code", nameOf(code))
		switch {
		case err == nil || code == codes.InvalidArgument:
			return err
		case ctx.Err() != nil:
			return unavailable{fmt.Errorf("%w: %w", ctx.Err(), err)}
		case isFinal(code):
			return unavailable{err}
		}
		c.failed(ctx, each.replica, name, code)
		// That no connection was made in time says less than why the first attempt failed. That the request is about
		// another policy says most: then it is built again.
		if first == nil || code != codes.DeadlineExceeded && status.Code(first) != codes.FailedPrecondition {
			first = err
		}
	}
	return unavailable{first}
}

func outcomeOf(ctx context.Context, err error) string {
	switch {
	case err == nil:
		return "ok"
	case status.Code(err) == codes.InvalidArgument:
		return "invalid"
	case errors.Is(ctx.Err(), context.Canceled):
		return "cancelled"
	}
	return "unavailable"
}

func (c *Client) attempt(ctx context.Context, a attempt, method string, request, reply any, options []grpc.CallOption) error {
	ctx, cancel := context.WithTimeout(ctx, c.settings.attempt)
	defer cancel()
	return c.channels[a.replica].Invoke(ctx, method, request, reply, slices.Concat(options, []grpc.CallOption{grpc.WaitForReady(a.patient)})...)
}

// isFinal reports whether every replica would refuse the caller alike.
func isFinal(code codes.Code) bool {
	switch code {
	case codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented:
		return true
	}
	return false
}

func (c *Client) failed(ctx context.Context, replica int, method string, code codes.Code) {
	c.settings.hooks.Warn(ctx, "attempt_failed", "method", method, "replica", c.addresses[replica], "code", nameOf(code))
	if (code == codes.Unavailable || code == codes.DeadlineExceeded) && c.rotation.state(replica).usable() {
		c.saw(replica, ReplicaSuspect, nameOf(code))
	}
}

// NewStream begins a stream at a replica that serves. It has no deadline but that of the context.
func (c *Client) NewStream(
	ctx context.Context, description *grpc.StreamDesc, method string, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	return c.channels[c.rotation.attempts()[0].replica].NewStream(ctx, description, method, options...)
}

// connect begins a connection of its own to a replica that serves. Close it.
func (c *Client) connect() (*grpc.ClientConn, error) {
	return c.dial(c.addresses[c.rotation.attempts()[0].replica])
}

// An unavailable error is that of the last attempt, and ErrUnavailable.
type unavailable struct{ cause error }

func (u unavailable) Error() string              { return ErrUnavailable.Error() + ": " + u.cause.Error() }
func (u unavailable) Unwrap() []error            { return []error{ErrUnavailable, u.cause} }
func (u unavailable) GRPCStatus() *status.Status { return status.Convert(u.cause) }
