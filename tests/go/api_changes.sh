#!/usr/bin/env bash
# Prints how the exported names of the Go modules differ from those at a tag or a commit (apidiff).
set -euo pipefail
cd "$(dirname "$0")/../.."
since=${1:?of which tag or commit?}
apidiff=${APIDIFF:-$PWD/.venv/go/apidiff}
former=$(mktemp -d)
trap 'rm -rf "$former"' EXIT
git archive "$since" clients/go examples/go go.work go.work.sum | tar --extract --directory "$former"

# packages MODULE: prints the packages that others can import, with their paths in the checkout.
packages() { (cd "$1" && go list -f '{{if ne .Name "main"}}{{.ImportPath}} {{.Dir}}{{end}}' ./... | grep -v /internal/); }

for module in clients/go clients/go/remote clients/go/mcpgo clients/go/mark3labs; do
  packages "$module" | while read -r path directory; do
    if ! (cd "$former/${directory#"$PWD/"}" && "$apidiff" -w "$former/export" "$path") 2>"$former/why"; then
      echo "$path: new (${since} has no such package)"
      continue
    fi
    changes=$(cd "$module" && "$apidiff" "$former/export" "$path")
    [ -z "$changes" ] || printf '%s:\n%s\n' "$path" "$changes"
  done
done
