package records_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/records"
	"github.com/callability/callability/clients/go/shipped"
)

// inventory has a server with an open tool and one that the config denies, and one that an agent may not see.
func inventory() *callability.Inventory {
	found := &callability.Inventory{}
	facts := callability.ToolFacts{
		ConfigDenied: callability.False, Approval: callability.NoRecord(), Annotations: &callability.Annotations{},
		Labels: callability.NoLabels(),
	}
	denied := facts
	denied.ConfigDenied = callability.True
	for _, server := range []string{"git", "payroll"} {
		err := found.PutServer(server, callability.ServerFacts{
			Enabled: callability.True, Quarantined: callability.False, Labels: callability.NoLabels(),
		})
		if err == nil {
			err = found.Replace(server, []callability.ToolEntry{
				{Name: "log", Facts: facts}, {Name: "reset", Facts: denied}, {Name: "odd", Facts: callability.ToolFacts{
					ConfigDenied: callability.False, Labels: callability.Labels{strings.Repeat("k", 200): "v"},
				}},
			})
		}
		if _, is := err.(interface{ Unwrap() []error }); err != nil && !is {
			log.Fatal(err)
		}
	}
	return found
}

func lines(t *testing.T, directory string) []map[string]any {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(directory, "client-*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var found []map[string]any
	for _, path := range paths {
		about, err := os.Stat(path)
		if err != nil || about.Mode().Perm() != 0o600 {
			t.Fatal(about.Mode(), err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		for each := bufio.NewScanner(file); each.Scan(); {
			var line map[string]any
			if err := json.Unmarshal(each.Bytes(), &line); err != nil {
				t.Fatal(err)
			}
			found = append(found, line)
		}
	}
	return found
}

func TestEachCallIsRecordedWithWhatBecameOfIt(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "records")
	for _, all := range []bool{false, true} {
		recorder, err := records.Open(directory, records.Options{All: all})
		if err != nil {
			t.Fatal(err)
		}
		tools := inventory()
		tools.Decided = recorder.Record
		ada := callability.NewAgent(callability.AgentFacts{Name: "ada", Labels: callability.NoLabels()})
		for _, name := range []string{"git:log", "git:reset", "git:odd", "git:none", "payroll:log", "é"} {
			tools.Decide(t.Context(), shipped.Policy(), ada, callability.Servers("git"), name)
		}
		tools.Decide(t.Context(), nil, ada, callability.AllServers(), "git:log")
		if err := recorder.Close(); err != nil {
			t.Error(err)
		}
		var found []string
		for _, each := range lines(t, directory) {
			found = append(found, strings.TrimSpace(fmt.Sprintln(each["n"], each["agent"], each["server"], each["tool"], each["ended"], each["status"], each["rule"])))
			if err := os.RemoveAll(directory); err != nil {
				t.Fatal(err)
			}
		}
		wanted := []string{
			"ada git log decided callable open", "ada git reset decided disabled_by_config operator-denied",
			"ada git odd no_verdict <nil> <nil>", "ada git none unknown <nil> <nil>", "ada payroll log out_of_scope <nil> <nil>",
			"ada  é unknown <nil> <nil>", "ada git log no_verdict <nil> <nil>", "<nil> <nil> <nil> <nil> <nil> <nil>",
		}
		if !all {
			wanted = wanted[1:]
		}
		for place, each := range wanted {
			wanted[place] = fmt.Sprint(place+1, " ", each)
		}
		if !slices.Equal(found, wanted) {
			t.Errorf("found\n%s\nwanted\n%s", strings.Join(found, "\n"), strings.Join(wanted, "\n"))
		}
	}
}

func TestFilesAreRotatedAndTheOldestRemovedWithinTheTotal(t *testing.T) {
	directory := t.TempDir()
	if err := os.Chmod(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		recorder, err := records.Open(directory, records.Options{MaxBytes: 80_000})
		if err != nil {
			t.Fatal(err)
		}
		for range 200 {
			recorder.Record(t.Context(), callability.DecidedCall{Server: "git", Tool: "none"})
		}
		if err := recorder.Close(); err != nil {
			t.Error(err)
		}
		if recorder.Dropped() != 0 || recorder.Written() != 200 {
			t.Error(recorder.Dropped(), recorder.Written())
		}
	}
	paths, err := filepath.Glob(filepath.Join(directory, "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var total int64
	for _, path := range paths {
		about, err := os.Stat(path)
		if err != nil || about.Size() > 10_000 {
			t.Error(path, about, err)
		}
		total += about.Size()
	}
	if total > 80_000 || len(paths) < 5 {
		t.Error(total, paths)
	}
}

func TestWhatCannotBeWrittenIsCounted(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "records")
	recorder, err := records.Open(directory, records.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(directory); err != nil {
		t.Fatal(err)
	}
	recorder.Record(t.Context(), callability.DecidedCall{Tool: "none"})
	for range 2 {
		if err := recorder.Close(); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "records: the last block is lost: ") {
			t.Errorf("found %v", err)
		}
	}
	recorder.Record(t.Context(), callability.DecidedCall{Tool: "late"})
	if recorder.Dropped() != 2 || recorder.Written() != 0 {
		t.Error(recorder.Dropped(), recorder.Written())
	}
}

func TestADirectoryThatOthersCanReadIsRefused(t *testing.T) {
	directory := t.TempDir()
	if err := os.Chmod(directory, 0o750); err != nil {
		t.Fatal(err)
	}
	_, err := records.Open(directory, records.Options{})
	if err == nil || !strings.HasSuffix(err.Error(), "is open to others, as its mode is 750: run chmod 700 on it") {
		t.Error(err)
	}
}

// The calls of an inventory are recorded; `callability records show DIRECTORY` prints them.
func ExampleOpen() {
	directory, err := os.MkdirTemp("", "records")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(directory)
	recorder, err := records.Open(directory, records.Options{})
	if err != nil {
		log.Fatal(err)
	}
	tools := inventory()
	tools.Decided = recorder.Record
	for _, name := range []string{"git:log", "git:reset"} {
		tools.Decide(context.Background(), shipped.Policy(), nil, callability.AllServers(), name)
	}
	if err := recorder.Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(recorder.Written(), "written,", recorder.Dropped(), "lost")
	// Output:
	// 1 written, 0 lost
}

func TestARecorderThatWasNotOpenedSaysSo(t *testing.T) {
	defer func() {
		if said := fmt.Sprint(recover()); !strings.HasPrefix(said, "records: found a Recorder that was not opened") {
			t.Errorf("found %s", said)
		}
	}()
	new(records.Recorder).Record(t.Context(), callability.DecidedCall{})
}
