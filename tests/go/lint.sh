#!/usr/bin/env bash
# Checks the Go modules by `make go-lint`, and names what is skipped where Go or its linters cannot be had.
set -euo pipefail
cd "$(dirname "$0")/../.."

if ! command -v go >/dev/null; then
  echo 'Go is not on this machine: the Go modules are not checked' >&2
  exit 0
fi
if ! made=$(make .venv/go/installed 2>&1); then
  echo "$made" >&2
  grep -qE 'dial tcp|i/o timeout|toolchain not available|invalid go version' <<<"$made" || exit 1
  echo 'The linters of Go are out of reach: the Go modules are not checked' >&2
  exit 0
fi
make go-lint
