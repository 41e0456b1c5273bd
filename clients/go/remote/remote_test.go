package remote_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/outcome"
	"github.com/callability/callability/clients/go/remote"
)

// generous is how long a test waits for what must come.
const generous = 2 * time.Minute

func waitUntil(t *testing.T, what string, true func() bool) {
	t.Helper()
	for deadline := time.Now().Add(generous); !true(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen within %s", what, generous)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func tools() []*callability.Tool {
	enabled := callability.NewServer("git", callability.ServerFacts{
		Enabled: callability.True, Quarantined: callability.False, Labels: callability.NoLabels(),
	})
	off := callability.NewServer("time", callability.ServerFacts{Enabled: callability.False})
	facts := callability.ToolFacts{ConfigDenied: callability.False, Approval: callability.NoRecord(), Annotations: &callability.Annotations{}}
	denied, disabled, unread, pending, half, neither, other := facts, facts, facts, facts, facts, facts, facts
	denied.ConfigDenied = callability.True
	disabled.Approval = callability.Record(callability.True, callability.ApprovalApproved)
	unread.Approval = callability.Approval{}
	pending.Approval = callability.Record(callability.Unknown, callability.ApprovalPending)
	half.Approval = callability.Record(callability.Unknown, callability.ApprovalApproved)
	neither.Approval = callability.Record(callability.Neither, callability.ApprovalApproved)
	other.Approval = callability.Record(callability.False, callability.ApprovalOther)
	return []*callability.Tool{
		enabled.Tool("status", facts), enabled.Tool("reset", denied), enabled.Tool("push", disabled),
		enabled.Tool("log", unread), enabled.Tool("tag", pending), off.Tool("now", callability.ToolFacts{}), off.Tool("set", denied),
		enabled.Tool("fetch", half), enabled.Tool("merge", neither), enabled.Tool("blame", other),
	}
}

func dial(t *testing.T, addresses ...string) *remote.Client {
	t.Helper()
	client, err := remote.Dial(addresses)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func followed(t *testing.T, client *remote.Client, options remote.LocalOptions) *remote.Local {
	t.Helper()
	local := remote.NewLocal(client, options)
	run(t, local)
	return local
}

func run(t *testing.T, local *remote.Local) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- local.Run(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("found %v, wanted %v", err, context.Canceled)
		}
	})
}

func TestALocalPolicyAnswersAsTheServiceDoes(t *testing.T) {
	client := dial(t, serve(t, policyDirectory(t), "127.0.0.1:0").address)
	local := followed(t, client, remote.LocalOptions{})
	waitUntil(t, "a policy", func() bool { return local.Policy() != nil })
	agent := callability.NewAgent(callability.AgentFacts{Name: "assistant", Labels: callability.NoLabels()})
	for _, tool := range tools() {
		for _, each := range []*callability.Agent{agent, nil} {
			wanted, err := client.Check(t.Context(), each, tool)
			if err != nil {
				t.Fatal(err)
			}
			found := local.Policy().Decide(each, tool).Answer()
			found.Words.Phrases, wanted.Words.Phrases = nil, nil
			if !reflect.DeepEqual(found, wanted) {
				t.Errorf("%s: found %+v, wanted %+v", tool.Name(), found, wanted)
			}
		}
	}
	judgement, err := client.Judge(t.Context(), callability.Adapter{}, agent, tools())
	if err != nil {
		t.Fatal(err)
	}
	wanted := `{"git":{"callable":1,"disabled_by_config":1,"disabled_by_user":1,"disabled_unknown":5},"time":{"callable":0,"server_disabled":2}}`
	if found := string(judgement.Counts()); found != wanted {
		t.Errorf("found %s, wanted %s", found, wanted)
	}
}

func TestALocalPolicyClassifiesAsTheServiceDoes(t *testing.T) {
	client := dial(t, serve(t, policyDirectory(t), "127.0.0.1:0").address)
	local := followed(t, client, remote.LocalOptions{})
	waitUntil(t, "a policy", func() bool { return local.Policy() != nil })
	for _, facts := range []outcome.LoadFacts{
		{},
		{Phase: outcome.PhaseList, Failure: outcome.FailureNone},
		{Failure: outcome.FailureTimeout, TriesLeft: 1, RetryScheduled: true},
		{HTTPStatus: 401, TimeoutSignature: true}, {HTTPStatus: 404, InSession: true}, {Failure: 99},
	} {
		wanted, err := client.ClassifyLoad(t.Context(), facts)
		if found := outcome.ClassifyLoad(local.Policy(), facts); err != nil || found != wanted || found.Rule == "" {
			t.Errorf("%+v: found %+v, wanted %+v and %v", facts, found, wanted, err)
		}
	}
	for _, facts := range []outcome.EnableFacts{
		{},
		{Known: callability.False},
		{Known: callability.True, WasConnected: callability.False, Credentials: outcome.CredentialsMissing},
		{Known: callability.True, WasConnected: callability.False, Credentials: outcome.CredentialsComplete,
			Authorization: outcome.AuthorizationUnanswered, Ended: outcome.EndFailed, DialogExpired: callability.True},
		{Known: callability.True, WasConnected: callability.False, Credentials: outcome.CredentialsComplete,
			Authorization: outcome.AuthorizationGranted, Ended: outcome.EndConnected, CallableTools: callability.True},
	} {
		wanted, err := client.ClassifyEnable(t.Context(), facts)
		if found := outcome.ClassifyEnable(local.Policy(), facts); err != nil || found != wanted || found.Rule == "" {
			t.Errorf("%+v: found %+v, wanted %+v and %v", facts, found, wanted, err)
		}
	}
}

func TestNoCallIsLostWhenOneOfTwoReplicasIsKilled(t *testing.T) {
	policy := policyDirectory(t)
	one, other := serve(t, policy, "127.0.0.1:0"), serve(t, policy, "127.0.0.1:0")
	client := dial(t, one.address, other.address)
	waitUntil(t, "two replicas that serve", func() bool {
		states := client.States()
		return states[one.address] == remote.ReplicaServing && states[other.address] == remote.ReplicaServing
	})
	tool := tools()[0]
	ask := func(count int) {
		t.Helper()
		for range count {
			if answer, err := client.Check(t.Context(), nil, tool); err != nil || answer.Status != callability.StatusCallable {
				t.Fatalf("found %s and %v", answer.Status, err)
			}
		}
	}
	ask(20)
	address := one.address
	one.kill()
	ask(50)
	waitUntil(t, "a replica that is down", func() bool { return client.States()[address] == remote.ReplicaDown })
	serve(t, policy, address)
	waitUntil(t, "a replica that serves again", func() bool { return client.States()[address] == remote.ReplicaServing })
	other.kill()
	ask(50)
}

func TestAReplicaThatDidNotAnswerAndIsGoneIsDown(t *testing.T) {
	between := relayTo(t, serve(t, policyDirectory(t), "127.0.0.1:0").address)
	client, err := remote.Dial([]string{between.address()}, remote.WithAttemptTimeout(200*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	state := func(wanted remote.ReplicaState) func() bool {
		return func() bool { return client.States()[between.address()] == wanted }
	}
	waitUntil(t, "a replica that serves", state(remote.ReplicaServing))
	between.forget()
	if answer, err := client.Check(t.Context(), nil, tools()[0]); err == nil {
		t.Fatalf("a connection that passes nothing on answered %s", answer.Status)
	}
	between.close()
	waitUntil(t, "a replica that is down", state(remote.ReplicaDown))
}

func TestWithoutAServiceTheErrorSaysSoAndNamesNoStatus(t *testing.T) {
	gone := serve(t, policyDirectory(t), "127.0.0.1:0")
	client, err := remote.Dial([]string{gone.address}, remote.WithAttemptTimeout(200*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	gone.kill()
	answer, err := client.Check(t.Context(), nil, tools()[0])
	if !errors.Is(err, remote.ErrUnavailable) || answer.Status != callability.StatusUnspecified {
		t.Errorf("found %s and %v", answer.Status, err)
	}
}

func TestAnEditOfThePolicyReachesALocalPolicy(t *testing.T) {
	directory := policyDirectory(t)
	local := followed(t, dial(t, serve(t, directory, "127.0.0.1:0").address), remote.LocalOptions{})
	waitUntil(t, "a policy", func() bool { return local.Policy() != nil })
	before := local.Policy().Revision()
	path := filepath.Join(directory, "callability.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	edited := strings.Replace(string(text), "The user disabled this tool.", "This tool is off.", 1)
	if edited == string(text) {
		t.Fatal("the rule file has other words than this test edits")
	}
	if err := os.WriteFile(path, []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "the edit", func() bool { return local.Policy() != nil && local.Policy().Revision() != before })
	if words := local.Policy().Decide(nil, tools()[2]).Words(); !strings.HasPrefix(words.Remediation, "This tool is off.") {
		t.Errorf("found %q", words.Remediation)
	}
}

func TestAPolicyThatNoContactConfirmsFailsClosedPastItsAge(t *testing.T) {
	service := serve(t, policyDirectory(t), "127.0.0.1:0")
	client := dial(t, service.address)
	file := filepath.Join(t.TempDir(), "policy.bundle")
	local := followed(t, client, remote.LocalOptions{File: file, MaxAge: 3 * time.Second})
	waitUntil(t, "a file", func() bool { _, err := os.Stat(file); return err == nil && local.Policy() != nil })
	service.kill()

	cold := remote.NewLocal(client, remote.LocalOptions{File: file, MaxAge: time.Hour})
	if !cold.Policy().Decide(nil, tools()[0]).Callable() {
		t.Error("a cold start does not decide from the file")
	}
	waitUntil(t, "its end", func() bool { return local.Policy() == nil })
	if local.Policy().Decide(nil, tools()[0]).Callable() {
		t.Error("a tool is callable without a policy")
	}
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(file, later, later); err != nil {
		t.Fatal(err)
	}
	if ahead := remote.NewLocal(client, remote.LocalOptions{File: file, MaxAge: time.Hour}); ahead.Policy() != nil {
		t.Error("a file that was confirmed after the clock's time is used")
	}
}

func TestABundleThatCouldNotBeWrittenIsWrittenLaterAndAnOlderOneIsNotConfirmed(t *testing.T) {
	directory, file := policyDirectory(t), filepath.Join(t.TempDir(), "policy.bundle")
	local := followed(t, dial(t, serve(t, directory, "127.0.0.1:0").address), remote.LocalOptions{File: file})
	waitUntil(t, "a file", func() bool { _, err := os.Stat(file); return err == nil && local.Policy() != nil })
	older, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before := local.Policy().Revision()
	// No file can be put in the place of a directory that is not empty.
	if err := errors.Join(os.Remove(file), os.MkdirAll(filepath.Join(file, "full"), 0o700)); err != nil {
		t.Fatal(err)
	}
	reworded(t, directory, 0)
	waitUntil(t, "the edit", func() bool { return local.Policy() != nil && local.Policy().Revision() != before })
	if err := errors.Join(os.RemoveAll(file), os.WriteFile(file, older, 0o600)); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "the file of the edit", func() bool {
		kept, err := callability.ReadPolicyFile(file)
		return err == nil && kept.Revision() == local.Policy().Revision()
	})
}

func TestAClientThatIsClosedLeavesNoGoroutineBehind(t *testing.T) {
	service := serve(t, policyDirectory(t), "127.0.0.1:0")
	before := runtime.NumGoroutine()
	client, err := remote.Dial([]string{service.address})
	if err != nil {
		t.Fatal(err)
	}
	local := remote.NewLocal(client, remote.LocalOptions{})
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- local.Run(ctx) }()
	waitUntil(t, "a policy", func() bool { return local.Policy() != nil })
	end()
	<-ended
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "the end of every goroutine", func() bool { return runtime.NumGoroutine() <= before })
}

func TestAnAddressElsewhereNeedsCredentials(t *testing.T) {
	if client, err := remote.Dial([]string{"policy.example:7420"}); !errors.Is(err, remote.ErrInsecure) || client != nil {
		t.Errorf("found %v", err)
	}
	if _, err := remote.Dial(nil); err == nil {
		t.Error("no address is accepted")
	}
}
