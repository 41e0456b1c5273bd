// Readbundles reads bundles, so that another reader can compare: each is four bytes of length in big-endian order and the
// bundle, on standard input. A line of standard output has the code for which it was refused, or `accepted`, the bytes that
// were allocated for it, the nanoseconds that it took, and the reason in quotes.
//
//	go run ./internal/readbundles < bundles
package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/callability/callability/clients/go/callability"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	buffered := bufio.NewReader(in)
	for {
		var length uint32
		if err := binary.Read(buffered, binary.BigEndian, &length); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		bundle := make([]byte, length)
		if _, err := io.ReadFull(buffered, bundle); err != nil {
			return err
		}
		code, allocated, took, why := read(bundle)
		if _, err := fmt.Fprintf(out, "%s %d %d %q\n", code, allocated, took.Nanoseconds(), why); err != nil {
			return err
		}
	}
}

func read(bundle []byte) (code string, allocated uint64, took time.Duration, why string) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	started := time.Now()
	_, err := callability.ReadPolicy(bundle)
	took = time.Since(started)
	runtime.ReadMemStats(&after)
	code = "accepted"
	var refused *callability.BundleError
	if errors.As(err, &refused) {
		code, why = refused.Code(), refused.Error()
	}
	return code, after.TotalAlloc - before.TotalAlloc, took, why
}
