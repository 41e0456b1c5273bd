package callabilitytest_test

import (
	"testing"

	"github.com/callability/callability/clients/go/callabilitytest"
	"github.com/callability/callability/clients/go/shipped"
)

func TestTheProxyOfTheExampleKeepsEveryLaw(t *testing.T) {
	callabilitytest.Run(t, shipped.Policy(), start)
}
