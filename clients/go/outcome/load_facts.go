package outcome

import (
	"slices"
	"strconv"

	"github.com/callability/callability/clients/go/internal/enum"
)

// A LoadPhase is the phase in which a load ended. Its numbers are those of the contract; the zero value is unknown.
type LoadPhase uint8

// The phases of a load.
const (
	// PhaseUnknown: not given, and read as unknown.
	PhaseUnknown LoadPhase = iota
	// PhaseConfig: the entry of the server was read.
	PhaseConfig
	// PhaseResolve: the name of the server's host was looked up.
	PhaseResolve
	// PhaseConnect: the connection was made, or the process was started.
	PhaseConnect
	// PhaseTLS: TLS was agreed on.
	PhaseTLS
	// PhaseRequest: the connection was established, and a request was sent.
	PhaseRequest
	// PhaseResponse: an answer was awaited or read.
	PhaseResponse
	// PhaseList: the session was established, and the tools were being listed.
	PhaseList
)

var phaseNames = [...]string{"unknown", "config", "resolve", "connect", "tls", "request", "response", "list"}

func (p LoadPhase) String() string { return enum.Name(p, phaseNames[:]) }

// MarshalText returns the word that String returns.
func (p LoadPhase) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads a word that String returns. A number of a later version is an error.
func (p *LoadPhase) UnmarshalText(text []byte) error { return enum.Parse(p, text, phaseNames[:]) }

// A LoadFailure is what ended a load. Its numbers are those of the contract; the zero value is unknown.
type LoadFailure uint8

// The failures of a load.
const (
	// FailureUnknown: not given, and read as unknown.
	FailureUnknown LoadFailure = iota
	// FailureNone: nothing failed: the tools are loaded.
	FailureNone
	// FailureTimeout: a deadline passed, whatever was awaited.
	FailureTimeout
	// FailureRefused: the connection was refused: nothing listens on the port.
	FailureRefused
	// FailureReset: the connection was reset.
	FailureReset
	// FailureClosed: the connection ended before the answer was complete.
	FailureClosed
	// FailureNameNotFound: the name of the host was not found.
	FailureNameNotFound
	// FailureTLS: TLS failed, a certificate that is not trusted included.
	FailureTLS
	// FailureBadConfig: the entry of the server is malformed.
	FailureBadConfig
	// FailureMissingCommand: the command of the server is not there, or cannot be run.
	FailureMissingCommand
	// FailureExited: the process exited before it answered.
	FailureExited
	// FailureNotMCP: the answer was not MCP.
	FailureNotMCP
	// FailureHTTPStatus: the answer was an HTTP status that is an error, or a redirect that is not followed.
	FailureHTTPStatus
	// FailureOther: something else failed.
	FailureOther
)

var failureNames = [...]string{"unknown", "none", "timeout", "refused", "reset", "closed", "name_not_found", "tls",
	"bad_config", "missing_command", "exited", "not_mcp", "http_status", "other"}

func (f LoadFailure) String() string { return enum.Name(f, failureNames[:]) }

// MarshalText returns the word that String returns.
func (f LoadFailure) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText reads a word that String returns. A number of a later version is an error.
func (f *LoadFailure) UnmarshalText(text []byte) error { return enum.Parse(f, text, failureNames[:]) }

// failurePhases are the phases in which a failure can happen.
var failurePhases = [...][]LoadPhase{
	FailureUnknown: {PhaseConfig, PhaseResolve, PhaseConnect, PhaseTLS, PhaseRequest, PhaseResponse, PhaseList},
	FailureNone:    {PhaseList},
	FailureTimeout: {PhaseResolve, PhaseConnect, PhaseTLS, PhaseRequest, PhaseResponse, PhaseList},
	FailureRefused: {PhaseConnect},
	FailureReset:   {PhaseConnect, PhaseTLS, PhaseRequest, PhaseResponse, PhaseList},
	FailureClosed:  {PhaseConnect, PhaseTLS, PhaseRequest, PhaseResponse, PhaseList},

	FailureNameNotFound:   {PhaseResolve, PhaseConnect},
	FailureTLS:            {PhaseConnect, PhaseTLS},
	FailureBadConfig:      {PhaseConfig},
	FailureMissingCommand: {PhaseConfig, PhaseConnect},
	FailureExited:         {PhaseConnect, PhaseRequest, PhaseResponse, PhaseList},
	FailureNotMCP:         {PhaseRequest, PhaseResponse, PhaseList},
	FailureHTTPStatus:     {PhaseConnect, PhaseRequest, PhaseResponse, PhaseList},
	FailureOther:          {PhaseConfig, PhaseResolve, PhaseConnect, PhaseTLS, PhaseRequest, PhaseResponse, PhaseList},
}

// LoadFacts are what a proxy observed of a load of a server's tools. If there were several errors, give the most severe: a
// denial before an error that needs attention, and that before one that may pass without help. In the zero value all is
// unknown, and nothing is asserted.
type LoadFacts struct {
	// Phase is read as unknown if Failure cannot happen in it.
	Phase LoadPhase
	// Failure is what ended the load; FailureUnknown if it is not known, or if HTTPStatus says it.
	Failure LoadFailure
	// HTTPStatus is the status number of the answer; 0: there was none. From 400 on it is the failure, whatever Failure
	// says; below 400, only if Failure is FailureHTTPStatus or unknown.
	HTTPStatus uint32
	// TimeoutSignature asserts that the body of a 401 or 403 says that an authorization proxy or its upstream timed out.
	TimeoutSignature bool
	// InSession asserts that the request named an established session.
	InSession bool
	// TriesLeft is how many attempts the load has left.
	TriesLeft uint32
	// RetryScheduled asserts that another attempt is scheduled if this one ended as transient.
	RetryScheduled bool
}

const firstError = 400

// failure returns the failure, and whether the HTTP status is it: a server that answered did not time out.
func (f LoadFacts) failure() (LoadFailure, bool) {
	given := f.Failure
	if int(given) >= len(failureNames) {
		given = FailureUnknown
	}
	open := given == FailureHTTPStatus || given == FailureUnknown
	if f.HTTPStatus != 0 && (f.HTTPStatus >= firstError || open) {
		return FailureHTTPStatus, true
	}
	return given, false
}

// values are the facts by name, as rule files write them; the empty text is unknown.
func (f LoadFacts) values() map[string]string {
	failure, answered := f.failure()
	phase := f.Phase
	if !slices.Contains(failurePhases[failure], phase) {
		phase = PhaseUnknown
	}
	class, number := "none", "none"
	switch {
	case answered:
		class, number = httpClass(f.HTTPStatus), httpNumber(f.HTTPStatus)
	case failure == FailureHTTPStatus || failure == FailureUnknown:
		class, number = "", ""
	}
	return map[string]string{
		"load.phase":             knownName(phaseNames[:], int(phase)),
		"load.failure":           knownName(failureNames[:], int(failure)),
		"load.http_class":        class,
		"load.http_status":       number,
		"load.timeout_signature": strconv.FormatBool(f.TimeoutSignature),
		"load.in_session":        strconv.FormatBool(f.InSession),
		"load.tries_left":        strconv.FormatBool(f.TriesLeft > 0),
		"load.retry_scheduled":   strconv.FormatBool(f.RetryScheduled),
	}
}

// knownName is a name as rule files write it; empty for 0 and for a number of a later version.
func knownName(names []string, number int) string {
	if number == 0 || number >= len(names) {
		return ""
	}
	return names[number]
}

// httpNumbers are the status numbers that rules can distinguish.
var httpNumbers = []string{"400", "401", "403", "404", "405", "408", "409", "410", "413", "415", "421", "425", "426",
	"429", "500", "501", "502", "503", "504"}

func httpNumber(number uint32) string {
	if text := strconv.Itoa(int(number)); slices.Contains(httpNumbers, text) {
		return text
	}
	return "other"
}

func httpClass(number uint32) string {
	if class := number / 100; 3 <= class && class <= 5 {
		return strconv.Itoa(int(class)) + "xx"
	}
	return "other"
}
