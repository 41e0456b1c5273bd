package callability_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/callability/callability/clients/go/callability"
)

var _ callability.Logger = (*slog.Logger)(nil)

func TestAStoreReportsWhatBecameOfABundle(t *testing.T) {
	var lines bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, each slog.Attr) slog.Attr {
			if each.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return each
		},
	}))
	store := callability.PolicyStore{Hooks: callability.Hooks{Logger: logger}}
	bundle, err := os.ReadFile(filepath.Join("..", "shipped", "policy.bundle"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := store.Replace(bundle); err != nil {
			t.Fatal(err)
		}
	}
	accepted := "level=INFO msg=policy_accepted revision=" + store.Load().Revision() + " sequence=0\n"
	if found := lines.String(); found != accepted {
		t.Errorf("found %q, wanted %q once", found, accepted)
	}
	lines.Reset()
	if err := store.Replace(bundle[:len(bundle)/2]); err == nil {
		t.Error("half a bundle is accepted")
	}
	if found := lines.String(); !strings.HasPrefix(found, "level=ERROR msg=bundle_refused code=damaged why=") {
		t.Errorf("found %q", found)
	}
}

func TestHooksThatAreLeftOutReceiveNothing(t *testing.T) {
	var hooks callability.Hooks
	ctx, end := hooks.Start(t.Context(), "callability.Judge")
	hooks.Info(ctx, "event")
	hooks.Warn(ctx, "event")
	hooks.Error(ctx, "event")
	hooks.Measure("callability_client_call_seconds", 1)
	end(context.Canceled)
	if ctx != t.Context() {
		t.Error("the context is another one")
	}
}
