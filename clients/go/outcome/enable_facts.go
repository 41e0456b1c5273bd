package outcome

import (
	"github.com/callability/callability/clients/go/callability"

	"github.com/callability/callability/clients/go/internal/enum"
)

// EnableCredentials says whether every variable that the entry of a server needs is set. Its numbers are those of the
// contract; the zero value is unknown.
type EnableCredentials uint8

// Whether the variables are set.
const (
	// CredentialsUnknown: not given, and read as unknown.
	CredentialsUnknown EnableCredentials = iota
	// CredentialsComplete: every one is set, or none is needed.
	CredentialsComplete
	// CredentialsMissing: at least one is not.
	CredentialsMissing
)

var credentialsNames = [...]string{"unknown", "complete", "missing"}

func (c EnableCredentials) String() string { return enum.Name(c, credentialsNames[:]) }

// MarshalText returns the word that String returns.
func (c EnableCredentials) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads a word that String returns. A number of a later version is an error.
func (c *EnableCredentials) UnmarshalText(text []byte) error {
	return enum.Parse(c, text, credentialsNames[:])
}

// An EnableAuthorization says how the request to authorize the connection ended. Its numbers are those of the contract; the
// zero value is unknown.
type EnableAuthorization uint8

// How the request ended.
const (
	// AuthorizationUnknown: not given, and read as unknown.
	AuthorizationUnknown EnableAuthorization = iota
	// AuthorizationNotNeeded: the server asked for none.
	AuthorizationNotNeeded
	// AuthorizationGranted: the user authorized it.
	AuthorizationGranted
	// AuthorizationDeclined: the user declined, in the dialog or at the provider.
	AuthorizationDeclined
	// AuthorizationNoDialog: it is needed, and this session cannot show a dialog.
	AuthorizationNoDialog
	// AuthorizationUnanswered: the user was asked, and had not answered when the attempt ended.
	AuthorizationUnanswered
)

var authorizationNames = [...]string{"unknown", "not_needed", "granted", "declined", "no_dialog", "unanswered"}

func (a EnableAuthorization) String() string { return enum.Name(a, authorizationNames[:]) }

// MarshalText returns the word that String returns.
func (a EnableAuthorization) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads a word that String returns. A number of a later version is an error.
func (a *EnableAuthorization) UnmarshalText(text []byte) error {
	return enum.Parse(a, text, authorizationNames[:])
}

// An EnableEnd says how the attempt to connect ended. Its numbers are those of the contract; the zero value is unknown.
type EnableEnd uint8

// How the attempt ended.
const (
	// EndUnknown: not given, and read as unknown.
	EndUnknown EnableEnd = iota
	// EndConnected: the server is connected, and its tools are listed.
	EndConnected
	// EndCancelled: the last waiting caller left, or the server was disabled.
	EndCancelled
	// EndFailed: it failed, or its deadline passed.
	EndFailed
)

var endNames = [...]string{"unknown", "connected", "cancelled", "failed"}

func (e EnableEnd) String() string { return enum.Name(e, endNames[:]) }

// MarshalText returns the word that String returns.
func (e EnableEnd) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText reads a word that String returns. A number of a later version is an error.
func (e *EnableEnd) UnmarshalText(text []byte) error { return enum.Parse(e, text, endNames[:]) }

// EnableFacts are what a proxy knows after an enable has ended. In the zero value all is unknown; facts that only rules
// below the deciding one read may be left out.
type EnableFacts struct {
	// Known reports whether the catalog has the server and the agent may see it.
	Known callability.Bool
	// WasConnected reports whether the server was connected before.
	WasConnected  callability.Bool
	Credentials   EnableCredentials
	Authorization EnableAuthorization
	Ended         EnableEnd
	// CallableTools reports whether at least one tool of the server can be called.
	CallableTools callability.Bool
	// Load is how the load of the server's tools was classified, if the connection failed.
	Load LoadStatus
	// DialogExpired reports whether a dialog was shown and its time ran out before the user answered.
	DialogExpired callability.Bool
}

// values are the facts by name, as rule files write them; the empty text is unknown.
func (f EnableFacts) values() map[string]string {
	return map[string]string{
		"enable.known":          boolText(f.Known),
		"enable.was_connected":  boolText(f.WasConnected),
		"enable.credentials":    knownName(credentialsNames[:], int(f.Credentials)),
		"enable.authorization":  knownName(authorizationNames[:], int(f.Authorization)),
		"enable.ended":          knownName(endNames[:], int(f.Ended)),
		"enable.load_status":    f.load(),
		"enable.dialog_expired": boolText(f.expired()),
		"enable.callable_tools": boolText(f.CallableTools),
	}
}

// load is `none` unless the connection may have failed: only a load that failed has a status.
func (f EnableFacts) load() string {
	switch {
	case f.ended() == EndFailed && f.Load > LoadAvailable:
		return knownName(loadNames[:], int(f.Load))
	case f.ended() == EndFailed || f.ended() == EndUnknown:
		return ""
	}
	return "none"
}

// expired is false unless a dialog may have been left unanswered.
func (f EnableFacts) expired() callability.Bool {
	open := f.Authorization == AuthorizationUnanswered || knownName(authorizationNames[:], int(f.Authorization)) == ""
	switch {
	case !open || f.ended() == EndConnected || f.ended() == EndCancelled:
		return callability.False
	case f.ended() == EndFailed || f.DialogExpired == callability.False:
		return f.DialogExpired
	}
	return callability.Unknown
}

// ended is how the attempt ended; unknown for a number of a later version.
func (f EnableFacts) ended() EnableEnd {
	if f.Ended > EndFailed {
		return EndUnknown
	}
	return f.Ended
}

func boolText(b callability.Bool) string {
	switch b {
	case callability.True:
		return "true"
	case callability.False:
		return "false"
	}
	return ""
}
