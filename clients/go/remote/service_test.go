package remote_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A replica is a real service in a process of its own.
type replica struct {
	address string
	command *exec.Cmd
}

// serve starts a service on a free port, or on the address of one that was killed.
func serve(t *testing.T, policy, address string) *replica {
	t.Helper()
	root := filepath.Join("..", "..", "..")
	program := filepath.Join(root, ".venv", "bin", "callability")
	if given := os.Getenv("CALLABILITY_PROGRAM"); given != "" {
		program = given
	}
	if _, err := os.Stat(program); err != nil {
		t.Skip("the service is not installed: `make setup` does it")
	}
	command := exec.Command(program, "serve", "--address", address, "--policy", policy, "--log-level", "error")
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	found := &replica{command: command}
	t.Cleanup(func() { found.kill() })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
			found.address = rest
			return found
		}
	}
	t.Fatal("the service printed no address")
	return nil
}

func (r *replica) kill() {
	if r.command != nil {
		_ = r.command.Process.Kill()
		_ = r.command.Wait()
		r.command = nil
	}
}

// policyDirectory is a copy of the shipped policy, which a test may edit.
func policyDirectory(t *testing.T) string {
	t.Helper()
	directory := t.TempDir()
	paths, err := filepath.Glob(filepath.Join("..", "..", "..", "policy", "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Skip("the shipped policy is in a checkout of the repository alone")
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(filepath.Join(directory, filepath.Base(path)), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return directory
}
