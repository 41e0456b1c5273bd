#!/usr/bin/env bash
# The wheel with each extra alone, in an environment of its own outside the checkout, does what that extra is for.
set -euo pipefail
outside=$(mktemp -d)
trap 'rm -rf "$outside"' EXIT
checks=$PWD/tests/wheel_checks.py
pip="-m pip --quiet --disable-pip-version-check"
"$BIN/python" -m build --quiet --wheel --outdir "$outside" .
wheel=$(echo "$outside"/callability-*.whl)
cd "$outside"

# check EXTRA ARGUMENT...: installs what the arguments say, and runs the checks for the extra.
check() {
  local extra=$1 python=$outside/$1/bin/python
  shift
  "$PYTHON" -m venv --without-pip "$extra"
  "$BIN/python" $pip --python "$python" install --no-compile "$@"
  mkdir "$extra/work"
  (cd "$extra/work" && "$python" "$checks" "$extra")
}

# A proxy that uses the adapter keeps its own version of MCP, and may have the oldest versions of what the base requires.
check base "$wheel" 'mcp<2' grpcio==1.72.1 protobuf==6.30.0 typer==0.16.0 &
base=$!
# What the extras need is fetched, and the engine compiled, once.
"$BIN/python" $pip wheel --wheel-dir wheels "$wheel[all,semantic]"
for extra in policy gateway studio columns otel semantic; do
  check "$extra" --no-index --find-links wheels "$wheel[$extra]"
done
wait "$base"
