package policyclient_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/examples/policyclient"
	"github.com/callability/callability/clients/go/shipped"
)

func TestAPolicyThatReadsWhatTheGatewayNeverSendsIsRefused(t *testing.T) {
	var store callability.PolicyStore
	if err := store.ReplaceFile(filepath.Join("..", "..", "callability", "testdata", "environments.bundle")); err != nil {
		t.Fatal(err)
	}
	if _, err := policyclient.New(&store, &callability.Inventory{}); err == nil || !strings.Contains(err.Error(), "`annotations`") {
		t.Errorf("found %v", err)
	}
}

func TestServersAndToolsAreAllowedOrRefusedWithAReason(t *testing.T) {
	var store callability.PolicyStore
	store.Swap(shipped.Policy())
	inventory := &callability.Inventory{}
	for name, enabled := range map[string]bool{"git": true, "off": false} {
		if err := inventory.PutServer(name, callability.ServerFacts{
			Enabled: callability.Known(enabled), Quarantined: callability.False,
		}); err != nil {
			t.Fatal(err)
		}
		for tool, denied := range map[string]bool{"log": false, "reset": true} {
			facts := callability.ToolFacts{ConfigDenied: callability.Known(denied), Approval: callability.NoRecord()}
			if err := inventory.Put(name, callability.ToolEntry{Name: tool, Facts: facts}); err != nil {
				t.Fatal(err)
			}
		}
	}
	guard, err := policyclient.New(&store, inventory)
	if err != nil {
		t.Fatal(err)
	}
	for request, wanted := range map[policyclient.Request]string{
		{Server: "git", Action: policyclient.ActionLoad}:                    "",
		{Server: "off", Action: policyclient.ActionLoad}:                    "server_disabled: ",
		{Server: "nowhere", Action: policyclient.ActionLoad}:                "disabled_unknown: ",
		{Server: "git", Tool: "log", Action: policyclient.ActionInvoke}:     "",
		{Server: "git", Tool: "reset", Action: policyclient.ActionInvoke}:   "Not called: disabled_by_config",
		{Server: "off", Tool: "log", Action: policyclient.ActionInvoke}:     "Not called: server_disabled",
		{Server: "git", Tool: "nothing", Action: policyclient.ActionInvoke}: "Not called: there is no tool",
	} {
		found, err := guard.Evaluate(t.Context(), request)
		if err != nil || found.Allowed != (wanted == "") || !strings.HasPrefix(found.Reason, wanted) ||
			strings.Contains(found.Reason, "retrieve_tools") {
			t.Errorf("%+v: found %+v, %v", request, found, err)
		}
	}
}
