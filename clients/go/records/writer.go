package records

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxLines     = 20_000
	maxLineBytes = 16 << 20
	// gather is how long lines are gathered before they are written in a block.
	gather = 50 * time.Millisecond
	// stopping is how long Close waits for the last block.
	stopping = 2 * time.Second
	// reportEvery is how often a loss is reported at most.
	reportEvery = time.Minute
)

// A writer numbers lines and writes them by a goroutine of its own, which starts with the first line.
type writer struct {
	files   *files
	options Options
	wake    chan struct{}
	stop    chan struct{}
	done    chan struct{}
	written atomic.Uint64
	dropped atomic.Uint64

	mutex sync.Mutex
	lines [][]byte
	size  int
	// missing are the lines that were dropped since the last block.
	missing int
	runs    bool
	closed  bool

	// Only the goroutine uses these, until it is done.
	number   int
	reported time.Time
	// failed is why the last block could not be written.
	failed error
}

func newWriter(directory string, options Options) *writer {
	return &writer{
		files: newFiles(directory, options.MaxBytes, options.MaxAge), options: options,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
}

// append adds the members of a record, and never waits for a disk.
func (w *writer) append(line []byte) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.closed || len(w.lines) >= maxLines || w.size+len(line) > maxLineBytes {
		w.missing++
		w.dropped.Add(1)
		return
	}
	w.lines = append(w.lines, line)
	w.size += len(line)
	w.run()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run starts the goroutine; the mutex is held.
func (w *writer) run() {
	if !w.runs {
		w.runs = true
		go w.writeAll()
	}
}

func (w *writer) close() error {
	w.mutex.Lock()
	if !w.closed {
		w.closed = true
		w.run()
		close(w.stop)
	}
	w.mutex.Unlock()
	select {
	case <-w.done:
	case <-time.After(stopping):
		return fmt.Errorf("records: the last block is not written after %s", stopping)
	}
	if w.failed != nil {
		return fmt.Errorf("records: the last block is lost: %w", w.failed)
	}
	return nil
}

func (w *writer) writeAll() {
	defer close(w.done)
	for {
		select {
		case <-w.wake:
			select {
			case <-time.After(gather):
			case <-w.stop:
			}
			w.writeBlock()
		case <-w.stop:
			w.writeBlock()
			w.end()
			return
		}
	}
}

func (w *writer) writeBlock() {
	w.mutex.Lock()
	lines, missing := w.lines, w.missing
	w.lines, w.size, w.missing = nil, 0, 0
	w.mutex.Unlock()
	if len(lines) > 0 {
		var block []byte
		for _, line := range lines {
			w.number++
			block = appendLine(block, w.number, line)
		}
		if w.failed = w.files.write(block); w.failed != nil {
			w.dropped.Add(uint64(len(lines)))
			w.report(w.failed.Error(), len(lines))
		} else {
			w.written.Add(uint64(len(lines)))
		}
	}
	if missing > 0 {
		// Nothing was appended between the first of them and this block.
		w.number += missing
		w.report("more come than can be written", missing)
	}
}

func appendLine(block []byte, number int, line []byte) []byte {
	block = fmt.Appendf(block, `{"v":%d,"n":%d,`, version, number)
	return append(append(block, line...), '}', '\n')
}

// end writes how many records there were.
func (w *writer) end() {
	w.number++
	line := asciiMembers(struct {
		Kind    string `json:"kind"`
		Time    string `json:"time"`
		Written uint64 `json:"written"`
		Dropped uint64 `json:"dropped"`
	}{"end", time.Now().UTC().Format(timeLayout), w.written.Load(), w.dropped.Load()})
	if err := w.files.write(appendLine(nil, w.number, line)); err != nil {
		w.report(err.Error(), 1)
		w.failed = cmp.Or(w.failed, err)
	}
	w.files.close()
}

func (w *writer) report(why string, lost int) {
	if now := time.Now(); now.Sub(w.reported) >= reportEvery {
		w.reported = now
		w.options.Hooks.Error(context.Background(), "records_lost", "why", why, "now", lost, "since_start", w.dropped.Load())
	}
	w.options.Hooks.Measure("callability_client_records_lost_total", float64(lost))
}
