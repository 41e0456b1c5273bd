package remote_test

import (
	"context"
	"net"
	"syscall"
	"testing"

	"google.golang.org/grpc"

	"github.com/callability/callability/clients/go/remote"
)

// userTimeout is the number of TCP_USER_TIMEOUT, which the package syscall does not have.
const userTimeout = 18

// TestAConnectionThatANetworkForgotIsGivenUpInSeconds reads what gRPC sets if it is to keep a connection alive: the kernel
// gives up a connection on which what was sent is not acknowledged in this time.
func TestAConnectionThatANetworkForgotIsGivenUpInSeconds(t *testing.T) {
	_, address := stream(t)
	made := make(chan net.Conn, 1)
	client, err := remote.Dial([]string{address}, remote.WithDialOptions(grpc.WithContextDialer(
		func(ctx context.Context, address string) (net.Conn, error) {
			connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
			select {
			case made <- connection:
			default:
			}
			return connection, err
		})))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	raw, err := (<-made).(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "a limit of 10 s", func() bool {
		var found int
		var failed error
		err := raw.Control(func(descriptor uintptr) {
			found, failed = syscall.GetsockoptInt(int(descriptor), syscall.IPPROTO_TCP, userTimeout)
		})
		return err == nil && failed == nil && found == 10_000
	})
}
