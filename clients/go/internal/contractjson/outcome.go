package contractjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/callability/callability/clients/go/outcome"
)

// A LoadRequest is a ClassifyLoadRequest.
type LoadRequest struct {
	Signals struct {
		Phase            any     `json:"phase"`
		Failure          any     `json:"failure"`
		HTTPStatus       *uint32 `json:"httpStatus"`
		TimeoutSignature bool    `json:"timeoutSignature"`
		InSession        bool    `json:"inSession"`
		TriesLeft        uint32  `json:"triesLeft"`
		RetryScheduled   bool    `json:"retryScheduled"`
	} `json:"signals"`
	// ErrorText is what only a service reads.
	ErrorText string `json:"errorText"`
}

// An EnableRequest is a ClassifyEnableRequest.
type EnableRequest struct {
	Facts struct {
		Known         *bool `json:"known"`
		WasConnected  *bool `json:"wasConnected"`
		Credentials   any   `json:"credentials"`
		Authorization any   `json:"authorization"`
		Ended         any   `json:"ended"`
		CallableTools *bool `json:"callableTools"`
		LoadStatus    any   `json:"loadStatus"`
		DialogExpired *bool `json:"dialogExpired"`
	} `json:"facts"`
}

// ParseLoad reads a request about a load. A field that it does not know is an error.
func ParseLoad(text []byte) (*LoadRequest, error) { return parsed[LoadRequest](text) }

// ParseEnable reads a request about an enable. A field that it does not know is an error.
func ParseEnable(text []byte) (*EnableRequest, error) { return parsed[EnableRequest](text) }

func parsed[T any](text []byte) (*T, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	found := new(T)
	if err := decoder.Decode(found); err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	return found, nil
}

// Load is what the request says of a load.
func (r *LoadRequest) Load() outcome.LoadFacts {
	found := outcome.LoadFacts{
		Phase:            enum[outcome.LoadPhase](r.Signals.Phase, "LOAD_PHASE_"),
		Failure:          enum[outcome.LoadFailure](r.Signals.Failure, "LOAD_FAILURE_"),
		TimeoutSignature: r.Signals.TimeoutSignature,
		InSession:        r.Signals.InSession,
		TriesLeft:        r.Signals.TriesLeft,
		RetryScheduled:   r.Signals.RetryScheduled,
	}
	if r.Signals.HTTPStatus != nil {
		found.HTTPStatus = *r.Signals.HTTPStatus
	}
	return found
}

// Enable is what the request says of an enable.
func (r *EnableRequest) Enable() outcome.EnableFacts {
	return outcome.EnableFacts{
		Known:         known(r.Facts.Known),
		WasConnected:  known(r.Facts.WasConnected),
		Credentials:   enum[outcome.EnableCredentials](r.Facts.Credentials, "ENABLE_CREDENTIALS_"),
		Authorization: enum[outcome.EnableAuthorization](r.Facts.Authorization, "ENABLE_AUTHORIZATION_"),
		Ended:         enum[outcome.EnableEnd](r.Facts.Ended, "ENABLE_END_"),
		CallableTools: known(r.Facts.CallableTools),
		Load:          enum[outcome.LoadStatus](r.Facts.LoadStatus, "LOAD_STATUS_"),
		DialogExpired: known(r.Facts.DialogExpired),
	}
}

// enum returns the value with a name of the contract; the greatest, which is none, for a number of a later version.
func enum[T interface {
	~uint8
	String() string
}](value any, prefix string) T {
	name, isName := value.(string)
	if !isName {
		if value == nil {
			return 0
		}
		return math.MaxUint8
	}
	wanted := strings.ToLower(strings.TrimPrefix(name, prefix))
	for number := range T(math.MaxUint8) {
		if number > 0 && number.String() == wanted {
			return number
		}
	}
	return 0
}
