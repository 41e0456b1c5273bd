// Package records writes a record of each decision of a proxy about a call: who was refused what, and by which rule. The
// records are those of the gateway, with `by: client`; `callability records` shows, counts and replays them.
//
//	recorder, err := records.Open("/var/lib/proxy/records", records.Options{})
//	...
//	inventory.Decided = recorder.Record
//
// A record has no arguments of calls and no texts of servers. A decision never waits for a disk: what cannot be written is
// dropped and counted.
package records

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"io"
	"math"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/callability/callability/clients/go/callability"
)

const (
	version      = 1
	maxNameBytes = 512
	timeLayout   = "2006-01-02T15:04:05.000Z"
)

// Options say what is recorded, and how much of it is kept.
type Options struct {
	// All records every decision; otherwise those that are not callable.
	All bool
	// MaxBytes is what the files of the directory take at most; by default 1 GiB.
	MaxBytes int64
	// MaxAge is how long a file is kept; by default 30 days.
	MaxAge time.Duration
	// Hooks receive, once a minute, that records are lost.
	Hooks callability.Hooks
}

// A Recorder writes records to a file of its own. [Open] returns one; every method of the zero Recorder panics. It is safe for
// concurrent use.
type Recorder struct {
	all    bool
	writer *writer
}

// Open returns a Recorder that writes to a directory, which is made if its parent is there. An error says why records cannot
// go there: it belongs to another user, is open to others, or cannot be used; on a system where no directory is one user's
// alone by its mode, it wraps [errors.ErrUnsupported]. Close the Recorder at the end.
func Open(directory string, options Options) (*Recorder, error) {
	if options.MaxBytes <= 0 {
		options.MaxBytes = 1 << 30
	}
	if options.MaxAge <= 0 {
		options.MaxAge = 30 * 24 * time.Hour
	}
	if err := checkDirectory(directory); err != nil {
		return nil, err
	}
	return &Recorder{options.All, newWriter(directory, options)}, nil
}

// opened is the writer of a Recorder that Open returned.
func (r *Recorder) opened() *writer {
	if r == nil || r.writer == nil {
		panic("records: found a Recorder that was not opened, wanted one that Open returned")
	}
	return r.writer
}

// Record records a decision about a call. It is for the field Decided of an Inventory.
func (r *Recorder) Record(_ context.Context, call callability.DecidedCall) {
	if r.all || !call.Verdict.Callable() {
		r.opened().append(encode(call))
	}
}

// Dropped is how many records are lost.
func (r *Recorder) Dropped() uint64 { return r.opened().dropped.Load() }

// Written is how many records were written.
func (r *Recorder) Written() uint64 { return r.opened().written.Load() }

// Close writes what waits, for at most two seconds. What is recorded afterwards is lost. An error says that the last block is
// lost, or not written in time.
func (r *Recorder) Close() error { return r.opened().close() }

var _ io.Closer = (*Recorder)(nil)

// A decision is a line without the members that every record has; they are in the order in which Python writes them.
type decision struct {
	Kind     string `json:"kind"`
	Time     string `json:"time"`
	ID       string `json:"id"`
	By       string `json:"by"`
	Question string `json:"question"`
	Agent    string `json:"agent"`
	Server   string `json:"server"`
	Tool     string `json:"tool,omitempty"`
	*judged
	Ended        string  `json:"ended"`
	Milliseconds float64 `json:"milliseconds"`
}

type judged struct {
	Facts        any      `json:"facts"`
	Revision     string   `json:"revision"`
	Semantics    int      `json:"semantics"`
	Status       string   `json:"status"`
	Rule         string   `json:"rule"`
	Undetermined bool     `json:"undetermined"`
	LiftedBy     string   `json:"lifted_by"`
	Retry        string   `json:"retry"`
	Unread       []string `json:"unread,omitzero"`
	Remaining    []step   `json:"remaining,omitzero"`
}

type step struct {
	Rule   string `json:"rule"`
	Status string `json:"status"`
}

func encode(call callability.DecidedCall) []byte {
	agent, _ := call.Agent.Facts()
	found := decision{
		Kind: "decision", Time: time.Now().UTC().Format(timeLayout), ID: newID(), By: "client", Question: "tool",
		Agent: cut(agent.Name), Server: cut(call.Server), Tool: cut(call.Tool),
		Ended: ended(call), Milliseconds: math.Round(float64(call.Took)/1e3) / 1e3,
	}
	if found.Ended == "decided" {
		found.judged = judgedBy(call)
	}
	return asciiMembers(found)
}

// ended is what became of a call; what cannot be judged for an error of its own has no verdict.
func ended(call callability.DecidedCall) string {
	switch {
	case call.Judged != nil && call.Verdict.Err() == nil:
		return "decided"
	case call.Judged != nil || call.NoPolicy:
		return "no_verdict"
	case call.OutOfScope:
		return "out_of_scope"
	}
	return "unknown"
}

func judgedBy(call callability.DecidedCall) *judged {
	verdict := call.Verdict
	found := &judged{
		Facts:    factsOf(call.Agent, call.Judged),
		Revision: verdict.Revision(), Semantics: callability.Semantics, Status: verdict.Status().String(), Rule: verdict.Rule(),
		Undetermined: verdict.Undetermined(), LiftedBy: verdict.LiftedBy().String(), Retry: verdict.Retry().String(),
		Unread: append([]string{}, verdict.Unread()...), Remaining: []step{},
	}
	for _, each := range verdict.Remaining().Steps {
		found.Remaining = append(found.Remaining, step{each.Rule, each.Status.String()})
	}
	return found
}

// asciiMembers are the members of a JSON object without its braces, in ASCII.
func asciiMembers(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // it is made of texts, numbers and truths
	}
	text = text[1 : len(text)-1]
	var found []byte
	for place, character := range string(text) {
		if character < utf8.RuneSelf {
			if found != nil {
				found = append(found, byte(character))
			}
			continue
		}
		if found == nil {
			found = append(make([]byte, 0, 2*len(text)), text[:place]...)
		}
		for _, unit := range utf16.Encode([]rune{character}) {
			found = append(append(found, `\u`...), hex.EncodeToString([]byte{byte(unit >> 8), byte(unit)})...)
		}
	}
	if found == nil {
		return text
	}
	return found
}

func newID() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // it never fails
	return hex.EncodeToString(random[:])
}

// cut is a name as a record has it: an agent may send one of any length, and bytes that are no text.
func cut(name string) string {
	name = strings.ToValidUTF8(name, "?")
	if len(name) <= maxNameBytes {
		return name
	}
	return strings.ToValidUTF8(name[:maxNameBytes], "")
}
