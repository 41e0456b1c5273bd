package callability_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/outcome"
)

// The numbers of the fields of a payload and of a rule set, and of the kinds and subjects of facts.
const (
	payloadRuleSets = 5

	ruleSetFacts    = 2
	ruleSetStatuses = 3
	ruleSetAxes     = 11
	ruleSetListed   = 17

	kindField, kindName = 1, 3

	subjectServer, subjectTool, subjectLoad = 1, 2, 4
)

// A fieldSpan is a field of a message: its number and where it lies.
type fieldSpan struct {
	number              int
	start, content, end int
}

// spans are the fields of a message that holds varints and bytes alone.
func spans(message []byte) []fieldSpan {
	var found []fieldSpan
	for place := 0; place < len(message); {
		tag, size := binary.Uvarint(message[place:])
		span := fieldSpan{number: int(tag >> 3), start: place, content: place + size}
		value, size := binary.Uvarint(message[span.content:])
		span.end = span.content + size
		if tag&7 == 2 {
			span.content = span.end
			span.end += int(value)
		}
		found = append(found, span)
		place = span.end
	}
	return found
}

// A ruleSetEdit adds facts and axes to a rule set of the shipped policy, which no rule of it reads.
type ruleSetEdit struct {
	facts int
	more  []any
}

// fact adds a fact, and returns its number.
func (e *ruleSetEdit) fact(kind, subject int, pairs ...any) byte {
	name := fmt.Sprintf("crafted.fact_%d", e.facts)
	e.more = append(e.more, ruleSetFacts, fields(append([]any{1, name, 2, kind, 3, subject}, pairs...)...))
	e.facts++
	return byte(e.facts - 1)
}

func (e *ruleSetEdit) axis(facts, readings []byte) {
	e.more = append(e.more, ruleSetAxes, fields(1, facts, 2, readings), ruleSetListed, facts)
}

// edited changes the field of a message that has a number and begins with a prefix.
func edited(t testing.TB, message []byte, number int, prefix []byte, edit func(content []byte) []byte) []byte {
	t.Helper()
	for _, span := range spans(message) {
		if content := message[span.content:span.end]; span.number == number && bytes.HasPrefix(content, prefix) {
			return slices.Concat(message[:span.start], fields(number, edit(content)), message[span.end:])
		}
	}
	t.Fatalf("the shipped policy has no field %d that begins with %q", number, prefix)
	return nil
}

// crafted is the shipped bundle with an edit of one of its rule sets.
func crafted(t testing.TB, question string, edit func(*ruleSetEdit)) []byte {
	t.Helper()
	return enveloped(edited(t, shippedPayload(t), payloadRuleSets, fields(1, question), func(ruleSet []byte) []byte {
		var more ruleSetEdit
		for _, each := range spans(ruleSet) {
			if each.number == ruleSetFacts {
				more.facts++
			}
		}
		edit(&more)
		return slices.Concat(ruleSet, fields(more.more...))
	}))
}

// renumbered is the shipped bundle with another number for a status of tools.
func renumbered(t testing.TB, status string, number int) []byte {
	t.Helper()
	question := fields(1, "callability")
	return enveloped(edited(t, shippedPayload(t), payloadRuleSets, question, func(ruleSet []byte) []byte {
		return edited(t, ruleSet, ruleSetStatuses, fields(1, status), func(content []byte) []byte {
			return slices.Concat(content, fields(2, number))
		})
	}))
}

// addUnknownAxis adds an axis of facts that have one value each and are always unknown.
func (e *ruleSetEdit) addUnknownAxis(subject, facts int) {
	var places []byte
	for range facts {
		places = append(places, e.fact(kindField, subject, 5, "yes"))
	}
	e.axis(places, bytes.Repeat([]byte{1}, facts))
}

// allocated is how many bytes are allocated meanwhile.
func allocated(run func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	run()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

const mebibyte = 1 << 20

func TestASmallBundleTakesLittleMemoryHoweverManyCombinationsItsAxesHave(t *testing.T) {
	wide := func(subject int) func(*ruleSetEdit) {
		return func(edit *ruleSetEdit) {
			for range 3 {
				edit.addUnknownAxis(subject, 22)
			}
		}
	}
	tools, loads := crafted(t, "callability", wide(subjectServer)), crafted(t, "load_outcome", wide(subjectLoad))
	facts := outcome.LoadFacts{HTTPStatus: 503, TriesLeft: 1}
	wanted := outcome.ClassifyLoad(bundled(t, "shipped.bundle"), facts)
	found := allocated(func() {
		policy, err := callability.ReadPolicy(tools)
		if err != nil {
			t.Fatal(err)
		}
		if verdict := policy.Decide(nil, open()); !verdict.Callable() {
			t.Errorf("found %s, %v", verdict.Status(), verdict.Err())
		}
		if policy, err = callability.ReadPolicy(loads); err != nil {
			t.Fatal(err)
		}
		if found := outcome.ClassifyLoad(policy, facts); found != wanted {
			t.Errorf("found %+v, wanted %+v", found, wanted)
		}
	})
	if found > 16*mebibyte {
		t.Errorf("bundles of %d bytes: found %d bytes allocated", len(tools)+len(loads), found)
	}
}

func TestAnAxisDecidesHoweverManyCombinationsItHas(t *testing.T) {
	policy, err := callability.ReadPolicy(crafted(t, "callability", func(edit *ruleSetEdit) {
		edit.addUnknownAxis(subjectTool, 40)
	}))
	if err != nil {
		t.Fatal(err)
	}
	if verdict := policy.Decide(nil, open()); !verdict.Callable() {
		t.Errorf("found %s, %v", verdict.Status(), verdict.Err())
	}
}

func TestReadingsThatNoPointListsCannotOccurTogether(t *testing.T) {
	policy, err := callability.ReadPolicy(crafted(t, "callability", func(edit *ruleSetEdit) {
		var places []byte
		for range 40 {
			places = append(places, edit.fact(kindField, subjectTool, 5, "yes"))
		}
		edit.axis(places, make([]byte, 40))
	}))
	if err != nil {
		t.Fatal(err)
	}
	var item *callability.ItemError
	if err := policy.Decide(nil, open()).Err(); !errors.As(err, &item) || item.Reason != "FACTS_IMPOSSIBLE" {
		t.Errorf("found %v", err)
	}
}

func TestEachFactOfANameClassifiesItForItself(t *testing.T) {
	policy, err := callability.ReadPolicy(crafted(t, "callability", func(edit *ruleSetEdit) {
		four := edit.fact(kindName, subjectTool, 5, "a", 5, "b", 5, "c", 5, "other",
			12, fields(1, "a*"), 12, fields(1, "b*"), 12, fields(1, "c*"),
			13, fields(1, 0), 13, fields(1, 1), 13, fields(1, 2), 13, fields())
		two := edit.fact(kindName, subjectTool, 5, "git", 5, "other", 12, fields(1, "git*"), 13, fields(1, 0), 13, fields())
		// The only point of this axis has the readings of `git_log`.
		edit.axis([]byte{four, two}, []byte{3, 0})
	}))
	if err != nil {
		t.Fatal(err)
	}
	if verdict := policy.Decide(nil, open()); !verdict.Callable() {
		t.Errorf("found %s, %v", verdict.Status(), verdict.Err())
	}
}

func TestAnAxisOfANameWithoutClassesIsRefused(t *testing.T) {
	refused(t, callability.ErrInvalid, crafted(t, "callability", func(edit *ruleSetEdit) {
		edit.axis([]byte{edit.fact(kindName, subjectTool)}, []byte{0})
	}))
}
