package remote_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/remote"
	v1 "github.com/callability/callability/clients/go/remote/v1"
)

// A refusing service answers every call with one code, and notes the trace that it was sent.
type refusing struct {
	v1.UnimplementedCallabilityServiceServer
	code   codes.Code
	traces chan []string
}

func (r *refusing) CheckTool(ctx context.Context, _ *v1.CheckToolRequest) (*v1.CheckToolResponse, error) {
	sent, _ := metadata.FromIncomingContext(ctx)
	r.traces <- sent.Get("traceparent")
	return nil, status.Error(r.code, "no")
}

func refuse(t *testing.T, code codes.Code) (address string, traces chan []string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, traces := grpc.NewServer(), make(chan []string, 2)
	v1.RegisterCallabilityServiceServer(server, &refusing{code: code, traces: traces})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		// A test may end before it serves.
		if err := <-ended; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	return listener.Addr().String(), traces
}

// A recorder is every kind of hook.
type recorder struct {
	mutex  sync.Mutex
	lines  bytes.Buffer
	spans  []string
	traced string
}

func (r *recorder) Write(line []byte) (int, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.lines.Write(line)
}

func (r *recorder) Measure(name string, _ float64, labels ...string) {
	_, _ = fmt.Fprintln(r, name, labels)
}

func (r *recorder) Start(ctx context.Context, name string) (context.Context, func(error)) {
	return metadata.AppendToOutgoingContext(ctx, "traceparent", r.traced), func(err error) {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		r.spans = append(r.spans, name+" "+status.Code(err).String())
	}
}

func (r *recorder) hooks() callability.Hooks {
	return callability.Hooks{Logger: slog.New(slog.NewTextHandler(r, nil)), Metrics: r, Tracer: r}
}

func (r *recorder) has(text string) bool { return strings.Contains(r.text(), text) }

func (r *recorder) text() string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.lines.String()
}

func TestHooksReceiveEventsFiguresAndSpansOfACall(t *testing.T) {
	address, traces := refuse(t, codes.DataLoss)
	seen := &recorder{traced: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	client, err := remote.Dial([]string{address}, remote.WithHooks(seen.hooks()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Check(t.Context(), nil, tools()[0]); !errors.Is(err, remote.ErrUnavailable) {
		t.Fatalf("found %v", err)
	}
	for range 2 {
		if found := <-traces; len(found) != 1 || found[0] != seen.traced {
			t.Errorf("found the trace %q, wanted %q", found, seen.traced)
		}
	}
	for _, wanted := range []string{
		"level=WARN msg=attempt_failed method=CheckTool replica=" + address + " code=DATA_LOSS",
		"callability_client_attempts_total [method CheckTool replica " + address + " code DATA_LOSS]",
		"callability_client_call_seconds [method CheckTool outcome unavailable]",
	} {
		if !seen.has(wanted) {
			t.Errorf("found %s\nwanted %s", seen.lines.String(), wanted)
		}
	}
	if len(seen.spans) != 1 || seen.spans[0] != "callability.CheckTool DataLoss" {
		t.Errorf("found the spans %q", seen.spans)
	}
}

func TestEveryErrorButARefusalOfTheRequestIsErrUnavailable(t *testing.T) {
	for _, code := range []codes.Code{
		codes.InvalidArgument, codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented, codes.Internal,
	} {
		address, _ := refuse(t, code)
		_, err := dial(t, address).Check(t.Context(), nil, tools()[0])
		if wanted := code != codes.InvalidArgument; errors.Is(err, remote.ErrUnavailable) != wanted || status.Code(err) != code {
			t.Errorf("%s: found %v, wanted ErrUnavailable: %t", code, err, wanted)
		}
	}
}

func TestTheSlicesOfACallerAreNeitherKeptNorWritten(t *testing.T) {
	address, _ := refuse(t, codes.InvalidArgument)
	addresses := []string{address}
	client := dial(t, addresses...)
	addresses[0] = "written"
	if _, has := client.States()[address]; !has {
		t.Errorf("found the replicas %v", client.States())
	}
	options := append(make([]grpc.CallOption, 0, 2), grpc.WaitForReady(true))
	err := client.Invoke(t.Context(), v1.CallabilityService_CheckTool_FullMethodName, &v1.CheckToolRequest{}, &v1.CheckToolResponse{}, options...)
	if status.Code(err) != codes.InvalidArgument || options[:2][1] != nil {
		t.Errorf("found %v and the options %v", err, options[:2])
	}
}

func TestTheEndOfACallersContextIsErrUnavailable(t *testing.T) {
	address, _ := refuse(t, codes.Internal)
	client := dial(t, address)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	for code, ctx := range map[codes.Code]context.Context{codes.Canceled: cancelled, codes.DeadlineExceeded: late} {
		_, err := client.Check(ctx, nil, tools()[0])
		if !errors.Is(err, remote.ErrUnavailable) || status.Code(err) != code || !errors.Is(err, ctx.Err()) {
			t.Errorf("found %v, wanted %s, %v and %v", err, code, ctx.Err(), remote.ErrUnavailable)
		}
	}
}

func TestHooksReceiveTheLifeOfAPolicy(t *testing.T) {
	directory, seen := policyDirectory(t), &recorder{}
	service := serve(t, directory, "127.0.0.1:0")
	client, err := remote.Dial([]string{service.address}, remote.WithHooks(seen.hooks()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	local := followed(t, client, remote.LocalOptions{MaxAge: 2 * time.Second})
	waitUntil(t, "a policy", func() bool { return seen.has("msg=policy_accepted revision=") })
	address := service.address
	service.kill()
	waitUntil(t, "its end", func() bool { return local.Policy() == nil && seen.has("level=ERROR msg=policy_too_old") })
	serve(t, directory, address)
	waitUntil(t, "a confirmation", func() bool { return local.Policy() != nil && seen.has("msg=policy_confirmed") })
	if !seen.has("callability_client_policy_age_seconds []") || !seen.has("msg=replica_down replica="+address+" why=UNAVAILABLE") {
		t.Errorf("found %s", seen.lines.String())
	}
}
