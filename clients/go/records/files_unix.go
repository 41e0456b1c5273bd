//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package records

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	maxFileBytes = 64 << 20
	maxFileAge   = 24 * time.Hour
	// share of the total that one file has at most.
	share = 8
	// pause is how long a directory that cannot be written is left alone.
	pause = time.Second
)

var fileName = regexp.MustCompile(`^[a-z]+-\d{8}T\d{9}Z-\d+(?:-\d+)?\.jsonl$`)

var errPaused = errors.New("the directory could not be written a moment ago")

// checkDirectory makes the directory if it is not there, and checks that it is this user's alone.
func checkDirectory(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("records: %w", err)
	}
	about, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("records: %w", err)
	}
	if !about.IsDir() {
		return fmt.Errorf("records: %s: found a file, wanted a directory", path)
	}
	if owner := about.Sys().(*syscall.Stat_t).Uid; int(owner) != os.Geteuid() {
		return fmt.Errorf("records: %s belongs to user %d, and records go to a directory of one's own: name another directory",
			path, owner)
	}
	if mode := about.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("records: %s is open to others, as its mode is %03o: run chmod 700 on it", path, mode)
	}
	return nil
}

// files are those of one Recorder in a directory that several processes share. Only one goroutine uses them.
type files struct {
	directory string
	total     int64
	age       time.Duration
	largest   int64
	stem      string
	count     int
	file      *os.File
	size      int64
	until     time.Time
	notBefore time.Time
}

func newFiles(directory string, total int64, age time.Duration) *files {
	return &files{
		directory: directory, total: total, age: age, largest: min(maxFileBytes, max(1, total/share)), stem: newStem(time.Now()),
	}
}

func newStem(start time.Time) string {
	stamp := strings.Replace(start.UTC().Format("20060102T150405.000Z"), ".", "", 1)
	return fmt.Sprintf("client-%s-%d", stamp, os.Getpid())
}

// write writes whole lines, or none of those of one file.
func (f *files) write(block []byte) error {
	for len(block) > 0 {
		end := bytes.IndexByte(block, '\n') + 1
		if err := f.openNext(int64(end)); err != nil {
			return err
		}
		if room := min(f.largest-f.size, int64(len(block))); room > int64(end) {
			end = bytes.LastIndexByte(block[:room], '\n') + 1
		}
		if err := f.put(block[:end]); err != nil {
			return err
		}
		block = block[end:]
	}
	return nil
}

func (f *files) put(lines []byte) error {
	if _, err := f.file.Write(lines); err != nil {
		// Half a line would spoil the next one.
		return errors.Join(err, f.file.Truncate(f.size))
	}
	f.size += int64(len(lines))
	return nil
}

func (f *files) close() {
	if f.file != nil {
		_ = f.file.Close() // everything was written, or counted as lost
		f.file = nil
	}
}

// openNext opens another file if there is none, or if this one is full, old or removed. A line that is larger than a file is
// alone in it.
func (f *files) openNext(line int64) error {
	if f.file != nil {
		about, err := f.file.Stat()
		hasRoom := f.size == 0 || f.size+line <= f.largest
		if err == nil && hasRoom && time.Now().Before(f.until) && about.Sys().(*syscall.Stat_t).Nlink > 0 {
			return nil
		}
		f.close()
	}
	if time.Now().Before(f.notBefore) {
		return errPaused
	}
	err := f.open()
	if err != nil {
		f.notBefore = time.Now().Add(pause)
	}
	return err
}

func (f *files) open() error {
	lock, err := os.OpenFile(filepath.Join(f.directory, ".lock"), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	if err := f.removeOld(); err != nil {
		return err
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL | os.O_APPEND | syscall.O_NOFOLLOW
	file, err := os.OpenFile(f.path(), flags, 0o600)
	for start := time.Now(); errors.Is(err, fs.ErrExist) && f.count == 0; start = start.Add(time.Millisecond) {
		// Another Recorder of this process began in the same millisecond.
		f.stem = newStem(start)
		file, err = os.OpenFile(f.path(), flags, 0o600)
	}
	if err != nil {
		return err
	}
	f.file, f.size, f.until = file, 0, time.Now().Add(maxFileAge)
	f.count++
	// Files that are locked are not removed.
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
}

func (f *files) path() string {
	name := f.stem + ".jsonl"
	if f.count > 0 {
		name = fmt.Sprintf("%s-%d.jsonl", f.stem, f.count+1)
	}
	return filepath.Join(f.directory, name)
}

// removeOld removes the oldest files beyond the total, and those beyond their age; a file in use counts as full.
func (f *files) removeOld() error {
	entries, err := os.ReadDir(f.directory)
	if err != nil {
		return err
	}
	start := func(entry os.DirEntry) string { return strings.SplitN(entry.Name(), "-", 3)[1] }
	entries = slices.DeleteFunc(entries, func(entry os.DirEntry) bool {
		return !fileName.MatchString(entry.Name()) || !entry.Type().IsRegular()
	})
	slices.SortStableFunc(entries, func(one, other os.DirEntry) int { return strings.Compare(start(one), start(other)) })
	room, used := f.total-f.largest, int64(0)
	var closed []fs.FileInfo
	for _, entry := range entries {
		about, err := entry.Info()
		switch {
		case err != nil:
			continue
		case isLocked(filepath.Join(f.directory, entry.Name())):
			room -= max(about.Size(), f.largest)
		default:
			closed, used = append(closed, about), used+about.Size()
		}
	}
	for _, about := range closed {
		if used > room || time.Since(about.ModTime()) > f.age {
			if err := os.Remove(filepath.Join(f.directory, about.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			used -= about.Size()
		}
	}
	return nil
}

// isLocked says whether a process still writes a file.
func isLocked(path string) bool {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer file.Close()
	return errors.Is(syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}
