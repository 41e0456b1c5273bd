package callability

import (
	"context"
	"errors"
	"testing"
)

// TestAContextEndsTheWaitForAJudgement holds a judgement under way, as a goroutine does that decides about every tool.
func TestAContextEndsTheWaitForAJudgement(t *testing.T) {
	policy, err := ReadPolicyFile("../shipped/policy.bundle")
	if err != nil {
		t.Fatal(err)
	}
	var inventory Inventory
	key := judgementKey{policy.number, (*Agent)(nil).pointsIn(policy).key, AllServers().key}
	inventory.kept.acquire(key, inventory.listing().version)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := inventory.Judge(ctx, policy, nil, AllServers()); !errors.Is(err, context.Canceled) {
		t.Errorf("found %v, wanted %v", err, context.Canceled)
	}
	found := inventory.Decide(ctx, policy, nil, AllServers(), "git:log")
	if found.Rejection == nil || found.Rejection.StructuredContent != nil {
		t.Errorf("found %+v, wanted no answer about the tool", found)
	}
	inventory.kept.release(key, nil, 0)
	if _, err := inventory.Judge(ctx, policy, nil, AllServers()); err != nil {
		t.Errorf("found %v for a judgement that waits for nothing", err)
	}
}
