package remote_test

import (
	"net"
	"testing"
	"time"
)

// TestAReplicaThatIsAwayForLongIsTriedAgainSoon counts attempts to connect. With gRPC's own pauses, the last of
// them would come after minutes.
func TestAReplicaThatIsAwayForLongIsTriedAgainSoon(t *testing.T) {
	const attempts = 13
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan struct{}, attempts)
	go func() {
		for range attempts {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_ = connection.Close()
			accepted <- struct{}{}
		}
	}()
	t.Cleanup(func() { _ = listener.Close() })
	dial(t, listener.Addr().String())
	tooLong := time.After(generous)
	for number := range attempts {
		select {
		case <-accepted:
		case <-tooLong:
			t.Fatalf("found %d attempts within %s, wanted %d", number, generous, attempts)
		}
	}
}
