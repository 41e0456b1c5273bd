package authorizer_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/examples/authorizer"
	"github.com/callability/callability/clients/go/shipped"
)

func TestANoCarriesTheWordsForTheAgent(t *testing.T) {
	guard := &authorizer.Guard{
		Policies: &callability.PolicyStore{}, Inventory: &callability.Inventory{}, Server: "git",
		Agent: func(context.Context) *callability.Agent { return callability.NewAgent(callability.AgentFacts{}) },
	}
	err := guard.Inventory.PutServer("git", callability.ServerFacts{Enabled: callability.True, Quarantined: callability.False})
	for tool, denied := range map[string]bool{"log": false, "reset": true} {
		facts := callability.ToolFacts{ConfigDenied: callability.Known(denied), Approval: callability.NoRecord()}
		err = errors.Join(err, guard.Inventory.Put("git", callability.ToolEntry{Name: tool, Facts: facts}))
	}
	if err != nil {
		t.Fatal(err)
	}
	call := func(tool string) (bool, error) {
		return guard.AuthorizeWithJWTClaims(t.Context(), authorizer.FeatureTool, authorizer.OperationCall, tool, nil)
	}
	if allowed, err := call("log"); allowed || err == nil || !strings.HasPrefix(err.Error(), "Not done: no policy") {
		t.Errorf("without a policy: found %t, %v", allowed, err)
	}
	guard.Policies.Swap(shipped.Policy())
	if allowed, err := call("log"); !allowed || err != nil {
		t.Errorf("found %t, %v", allowed, err)
	}
	allowed, err := call("reset")
	var locked *authorizer.LockedError
	if allowed || !errors.Is(err, authorizer.ErrLocked) || !errors.As(err, &locked) ||
		locked.Status != callability.StatusDisabledByConfig || !strings.HasPrefix(locked.Text, "Not called: disabled_by_config") {
		t.Errorf("found %t, %v", allowed, err)
	}
	if allowed, err := guard.AuthorizeWithJWTClaims(t.Context(), authorizer.FeatureTool, authorizer.OperationList, "", nil); !allowed || err != nil {
		t.Errorf("found %t, %v", allowed, err)
	}
}
