package remote_test

import (
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/callability/callability/clients/go/remote"
)

func TestAClientCanBeClosedTwice(t *testing.T) {
	address, _ := refuse(t, codes.Unavailable)
	client, err := remote.Dial([]string{address})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}
