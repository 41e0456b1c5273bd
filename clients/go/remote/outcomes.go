package remote

import (
	"context"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/outcome"
	v1 "github.com/callability/callability/clients/go/remote/v1"
)

// ClassifyLoad decides how the load of a server's tools ended. An error is that of Check.
func (c *Client) ClassifyLoad(ctx context.Context, facts outcome.LoadFacts) (outcome.LoadAnswer, error) {
	reply, err := v1.NewCallabilityServiceClient(c).ClassifyLoad(ctx, LoadRequest(facts))
	if err != nil {
		return outcome.LoadAnswer{}, err
	}
	return LoadAnswerOf(reply), nil
}

// ClassifyEnable decides how an enable of a server ended. An error is that of Check.
func (c *Client) ClassifyEnable(ctx context.Context, facts outcome.EnableFacts) (outcome.EnableAnswer, error) {
	reply, err := v1.NewCallabilityServiceClient(c).ClassifyEnable(ctx, EnableRequest(facts))
	if err != nil {
		return outcome.EnableAnswer{}, err
	}
	return EnableAnswerOf(reply), nil
}

// LoadRequest is the request about a load.
func LoadRequest(facts outcome.LoadFacts) *v1.ClassifyLoadRequest {
	signals := &v1.LoadSignals{
		TimeoutSignature: facts.TimeoutSignature,
		InSession:        facts.InSession,
		TriesLeft:        facts.TriesLeft,
		RetryScheduled:   facts.RetryScheduled,
		Phase:            given(v1.LoadPhase(facts.Phase)),
		Failure:          given(v1.LoadFailure(facts.Failure)),
		HttpStatus:       given(facts.HTTPStatus),
	}
	return &v1.ClassifyLoadRequest{Signals: signals}
}

// EnableRequest is the request about an enable.
func EnableRequest(facts outcome.EnableFacts) *v1.ClassifyEnableRequest {
	return &v1.ClassifyEnableRequest{Facts: &v1.EnableFacts{
		Known:         truth(facts.Known),
		WasConnected:  truth(facts.WasConnected),
		Credentials:   given(v1.EnableCredentials(facts.Credentials)),
		Authorization: given(v1.EnableAuthorization(facts.Authorization)),
		Ended:         given(v1.EnableEnd(facts.Ended)),
		CallableTools: truth(facts.CallableTools),
		LoadStatus:    given(v1.LoadStatus(facts.Load)),
		DialogExpired: truth(facts.DialogExpired),
	}}
}

// given is nil for what is unknown.
func given[T comparable](value T) *T {
	if value == *new(T) {
		return nil
	}
	return &value
}

// LoadAnswerOf is what the adapter takes of an answer about a load.
func LoadAnswerOf(reply *v1.ClassifyLoadResponse) outcome.LoadAnswer {
	verdict, words := reply.GetVerdict(), reply.GetWords()
	return outcome.LoadAnswer{
		Status:       outcome.LoadStatus(known(verdict.GetStatus(), v1.LoadStatus_name)),
		Rule:         verdict.GetRule(),
		Undetermined: verdict.GetUndetermined(),
		LiftedBy:     callability.LiftedBy(known(verdict.GetLiftedBy(), v1.LiftedBy_name)),
		Retry:        retryOf(verdict.GetRetry()),
		WordsStatus:  outcome.LoadStatus(known(words.GetStatus(), v1.LoadStatus_name)),
		Message:      words.GetMessage(),
	}
}

// EnableAnswerOf is what the adapter takes of an answer about an enable.
func EnableAnswerOf(reply *v1.ClassifyEnableResponse) outcome.EnableAnswer {
	verdict, words := reply.GetVerdict(), reply.GetWords()
	return outcome.EnableAnswer{
		Status:       outcome.EnableStatus(known(verdict.GetStatus(), v1.EnableStatus_name)),
		Rule:         verdict.GetRule(),
		Undetermined: verdict.GetUndetermined(),
		LiftedBy:     callability.LiftedBy(known(verdict.GetLiftedBy(), v1.LiftedBy_name)),
		Retry:        retryOf(verdict.GetRetry()),
		Entry:        outcome.EnableEntry(known(verdict.GetEntry(), v1.EnableEntry_name)),
		Error:        verdict.GetError(),
		ToolsChanged: verdict.GetToolsChanged() > 0,
		WordsStatus:  outcome.EnableStatus(known(words.GetStatus(), v1.EnableStatus_name)),
		Message:      words.GetMessage(),
	}
}

// known is a number of an enum, and 0 for one of a later version.
func known[T ~int32](value T, names map[int32]string) int32 {
	if _, has := names[int32(value)]; !has {
		return 0
	}
	return int32(value)
}
