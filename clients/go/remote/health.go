package remote

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// service is the one whose health is watched.
const service = "callability.v1.CallabilityService"

// errSuspected ends a stream of health because a call made the replica suspect.
var errSuspected = errors.New("a call made the replica suspect")

// watch follows the health of a replica. A replica that is suspect is asked again by a new stream, which does not wait
// for a connection: a replica that is gone is found to be down.
func (c *Client) watch(ctx context.Context, replica int) {
	patient := true
	for ctx.Err() == nil {
		wait := pause
		err := c.follow(ctx, replica, patient)
		patient = !errors.Is(err, errSuspected)
		switch {
		case ctx.Err() != nil:
			return
		case !patient:
			// The replica stays suspect until the next stream says more.
		case status.Code(err) == codes.Unimplemented:
			c.saw(replica, ReplicaUnknown, "")
			wait = unsupported
		case err != nil:
			c.saw(replica, ReplicaDown, nameOf(status.Code(err)))
		}
		waitFor(ctx, wait)
	}
}

// follow reads the health of a replica until the stream ends. A patient stream begins when there is a connection. If a
// call makes the replica suspect, the stream is to be read again from its beginning, since a service says only once that
// it serves.
func (c *Client) follow(ctx context.Context, replica int, patient bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := grpc_health_v1.NewHealthClient(c.channels[replica]).Watch(
		ctx, &grpc_health_v1.HealthCheckRequest{Service: service}, grpc.WaitForReady(patient))
	if err != nil {
		return err
	}
	suspected := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		c.cancelIfSuspect(ctx, cancel, replica, suspected)
	}()
	defer func() { cancel(); <-stopped }()
	for {
		reply, err := stream.Recv()
		if err != nil {
			select {
			case <-suspected:
				return errSuspected
			default:
				return err
			}
		}
		switch reply.GetStatus() {
		case grpc_health_v1.HealthCheckResponse_SERVING:
			c.saw(replica, ReplicaServing, "")
		case grpc_health_v1.HealthCheckResponse_NOT_SERVING:
			c.saw(replica, ReplicaDown, reply.GetStatus().String())
		default:
			c.saw(replica, ReplicaUnknown, "")
		}
	}
}

func (c *Client) cancelIfSuspect(ctx context.Context, cancel context.CancelFunc, replica int, suspected chan struct{}) {
	select {
	case <-ctx.Done():
	case <-c.suspects[replica]:
		close(suspected)
		cancel()
	}
}

func (c *Client) saw(replica int, state ReplicaState, why string) {
	if !c.rotation.saw(replica, state) {
		return
	}
	hooks, event, pairs := c.settings.hooks, "replica_"+state.String(), []any{"replica", c.addresses[replica]}
	if why != "" {
		pairs = append(pairs, "why", why)
	}
	if state.usable() {
		hooks.Info(context.Background(), event, pairs...)
	} else {
		hooks.Warn(context.Background(), event, pairs...)
	}
	serving := 0.0
	if state == ReplicaServing {
		serving = 1
	}
	hooks.Measure("callability_client_replica_serving", serving, "replica", c.addresses[replica])
	if state == ReplicaSuspect {
		select {
		case c.suspects[replica] <- struct{}{}:
		default:
		}
	}
}

// nameOf is the name of a code in the specification of gRPC, such as DEADLINE_EXCEEDED.
func nameOf(code codes.Code) string {
	if code == codes.Canceled {
		return "CANCELLED"
	}
	var name strings.Builder
	for place, letter := range code.String() {
		if place > 1 && unicode.IsUpper(letter) {
			name.WriteByte('_')
		}
		name.WriteRune(unicode.ToUpper(letter))
	}
	return name.String()
}

func waitFor(ctx context.Context, duration time.Duration) {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
