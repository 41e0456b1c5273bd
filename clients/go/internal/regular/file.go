// Package regular opens files that may be named by a config: anything but a regular file could block for ever, or have no end.
package regular

import (
	"fmt"
	"io/fs"
	"os"
)

// Open opens a regular file for reading, and describes it. To open a named pipe would wait for a writer, so that the kind is
// looked at before.
func Open(path string) (*os.File, fs.FileInfo, error) {
	about, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if err := Check(path, about); err != nil {
		return nil, nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	if about, err = file.Stat(); err == nil {
		err = Check(path, about)
	}
	if err != nil {
		_ = file.Close() // nothing was written to it
		return nil, nil, err
	}
	return file, about, nil
}

// Check returns an error that names the kind of what is no regular file.
func Check(path string, about fs.FileInfo) error {
	kind := "a file of another kind"
	switch mode := about.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		kind = "a directory"
	case mode&fs.ModeNamedPipe != 0:
		kind = "a named pipe"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	case mode&fs.ModeDevice != 0:
		kind = "a device"
	}
	return fmt.Errorf("%s: found %s, wanted a regular file", path, kind)
}
