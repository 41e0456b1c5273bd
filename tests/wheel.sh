#!/usr/bin/env bash
# The wheel, installed in an empty environment outside the checkout, checks its policy and answers one decision.
set -euo pipefail
outside=$(mktemp -d)
trap 'rm -rf "$outside"' EXIT
"$BIN/python" -m build --quiet --wheel --outdir "$outside" .
"$PYTHON" -m venv "$outside/empty"
"$outside/empty/bin/python" -m pip install --quiet --disable-pip-version-check "$outside"/callability-*.whl
cd "$outside"
empty/bin/callability check
empty/bin/python -c '
from callability.studio.pages import page_files
paths = {route.path for route in page_files("")}
assert {"/", "/main.js", "/style.css", "/icon.svg"} <= paths, paths
'
empty/bin/callability policy export --example change-freeze freeze
empty/bin/callability check --strict freeze
empty/bin/callability explain tool.config_denied=true --json >decision.json
empty/bin/python -c '
import json
verdict = json.load(open("decision.json"))["verdict"]
assert verdict["status"] == "disabled_by_config", verdict
print("the wheel answers:", verdict["status"])
'
