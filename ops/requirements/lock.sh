#!/usr/bin/env bash
# Writes the lock files beside it: one version of each package for every supported Python, with the hashes of its wheels
# and its source. Arguments are handed to uv: --upgrade for the newest versions.
set -euo pipefail
cd "$(dirname "$0")/../.."

# lock NAME SOURCE...: writes ops/requirements/NAME.txt.
lock() {
  local name=$1
  shift
  "$UV" pip compile --quiet --universal --python-version 3.11 --generate-hashes --custom-compile-command "make lock" \
    "${options[@]}" --output-file "ops/requirements/$name.txt" "$@"
}

options=("$@")
lock pip --group pip
lock build --group build
lock lock --group lock
lock dev --extra demo --extra dev pyproject.toml
lock stubs proto/requirements.txt
lock node --group node
lock fuzz --group fuzz
lock ops --group ops --constraint ops/requirements/dev.txt
lock fleet --group fleet
# The lowest versions that the distribution allows, on the oldest Python.
lock lowest --extra unit pyproject.toml --resolution lowest-direct --no-universal
