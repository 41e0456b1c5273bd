package callability_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/callability/callability/clients/go/callability"
	"github.com/callability/callability/clients/go/shipped"
)

// vectors returns the path of a golden vector. They are beside the module in a checkout, and not in its archive.
func vectors(t testing.TB, path ...string) string {
	t.Helper()
	root := filepath.Join("..", "..", "..")
	if _, err := os.Stat(filepath.Join(root, "proto")); err != nil {
		t.Skip("the golden vectors are in a checkout of the repository alone")
	}
	return filepath.Join(append([]string{root, "tests", "vectors"}, path...)...)
}

// bundled returns the shipped policy, or that of a bundle in testdata.
func bundled(t testing.TB, name string) *callability.Policy {
	t.Helper()
	if name == "shipped.bundle" {
		return shipped.Policy()
	}
	policy, err := callability.ReadPolicyFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return policy
}
