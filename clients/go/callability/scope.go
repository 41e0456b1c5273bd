package callability

import (
	"slices"
	"strconv"

	"github.com/callability/callability/clients/go/internal/wording"
)

// A Scope is the servers that an agent may see. The zero Scope is no server: an agent of which nothing was set sees
// nothing. A server out of its scope does not exist for an agent.
type Scope struct {
	all bool
	// names are in order, each once.
	names []string
	// key is equal for equal scopes, and for no others: a name may hold every byte.
	key string
}

// AllServers is the scope of an agent that may see every server. It is never a default: say it where that is meant.
func AllServers() Scope { return Scope{all: true, key: "*"} }

// Servers is the scope of some servers, by name; without names, it is no server.
func Servers(names ...string) Scope {
	scope := Scope{names: slices.Compact(slices.Sorted(slices.Values(names)))}
	var key []byte
	for _, name := range scope.names {
		key = append(strconv.AppendInt(key, int64(len(name)), 10), ':')
		key = append(key, name...)
	}
	scope.key = string(key)
	return scope
}

// Equal reports whether both scopes are the same servers.
func (s Scope) Equal(other Scope) bool { return s.key == other.key }

// String says which servers these are, for logs.
func (s Scope) String() string {
	switch {
	case s.all:
		return "all servers"
	case len(s.names) == 0:
		return "no server"
	}
	return wording.QuotedAll(s.names)
}

// Includes reports whether a server is in the scope.
func (s Scope) Includes(server string) bool {
	if s.all {
		return true
	}
	_, found := slices.BinarySearch(s.names, server)
	return found
}
