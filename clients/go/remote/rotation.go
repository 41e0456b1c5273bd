package remote

import (
	"sync"
	"time"

	"github.com/callability/callability/clients/go/internal/enum"
)

// A ReplicaState is what is known of a replica.
type ReplicaState uint8

// The states of a replica.
const (
	// ReplicaUnknown: its health has not been read. It is asked like one that serves.
	ReplicaUnknown ReplicaState = iota
	// ReplicaServing: it says that it serves.
	ReplicaServing
	// ReplicaDown: it cannot be reached, or says that it does not serve.
	ReplicaDown
	// ReplicaSuspect: it did not answer in time or was unavailable, and has not said since that it serves.
	ReplicaSuspect
)

var replicaNames = [...]string{"unknown", "serving", "down", "suspect"}

func (s ReplicaState) String() string { return enum.Name(s, replicaNames[:]) }

// MarshalText returns the word that String returns.
func (s ReplicaState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a word that String returns. A number of a later version is an error.
func (s *ReplicaState) UnmarshalText(text []byte) error { return enum.Parse(s, text, replicaNames[:]) }

func (s ReplicaState) usable() bool { return s == ReplicaUnknown || s == ReplicaServing }

// patience is how long after a replica was lost a second attempt waits for a connection to it: it may be starting again.
const patience = 5 * time.Second

// A rotation says which replica is asked next: round-robin over those that serve, the others after them.
type rotation struct {
	mutex  sync.Mutex
	turn   int
	states []ReplicaState
	lostAt []time.Time
}

type attempt struct {
	replica int
	patient bool
}

func newRotation(replicas int) *rotation {
	r := &rotation{states: make([]ReplicaState, replicas), lostAt: make([]time.Time, replicas)}
	for place := range r.lostAt {
		r.lostAt[place] = time.Now()
	}
	return r
}

// attempts are the two attempts of a call. They go to different replicas, if there are two.
func (r *rotation) attempts() [2]attempt {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	count := len(r.states)
	r.turn = (r.turn + 1) % count
	order := make([]int, 0, 2*count)
	for _, usable := range []bool{true, false} {
		for step := range count {
			if replica := (r.turn + step) % count; r.states[replica].usable() == usable {
				order = append(order, replica)
			}
		}
	}
	first, second := order[0], order[1%count]
	waits := r.states[second].usable() || time.Since(r.lostAt[second]) < patience
	return [2]attempt{{first, false}, {second, waits}}
}

// saw notes the state of a replica, and reports whether it is another than before.
func (r *rotation) saw(replica int, state ReplicaState) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	before := r.states[replica]
	if before.usable() && !state.usable() {
		r.lostAt[replica] = time.Now()
	}
	r.states[replica] = state
	return before != state
}

func (r *rotation) state(replica int) ReplicaState {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.states[replica]
}
