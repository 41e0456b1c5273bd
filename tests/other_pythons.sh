#!/usr/bin/env bash
# Runs the tests that start no process on each other supported Python, and on the oldest one with the lowest versions that
# pyproject.toml allows. Each has a virtual environment of its own below $ENVIRONMENTS. A Python that is not on this machine
# is named and skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
own=$("$BIN/python" -c 'import sys; print("{}.{}".format(*sys.version_info))')
supported=$(sed -n 's/.*Programming Language :: Python :: \(3\.[0-9]*\)".*/\1/p' pyproject.toml)
oldest=${supported%%$'\n'*}

# find_python VERSION: prints an interpreter that starts, of the path or of pyenv.
find_python() {
  local python
  for python in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/"python$1"; do
    "$python" -c '' 2>/dev/null && command -v "$python" && return
  done
  return 1
}

# install ARGUMENT...: installs into the current virtual environment; from what was downloaded before, if that is all there.
install() {
  "$UV" pip install --quiet --build-constraint ops/requirements/build.txt --offline "$@" 2>/dev/null ||
    "$UV" pip install --quiet --build-constraint ops/requirements/build.txt "$@"
}

# check NAME VERSION LOCK: runs the tests on a version of Python with the packages of a lock file.
check() {
  local environment=$ENVIRONMENTS/$1 lock=ops/requirements/$3.txt found
  if ! found=$(find_python "$2"); then
    echo "Python $2 is not on this machine: the unit tests do not run with $1" >&2
    return
  fi
  if ! cmp --silent "$lock" "$environment/installed"; then
    "$UV" venv --quiet --clear --python "$found" "$environment"
    export VIRTUAL_ENV=$environment
    install --require-hashes --requirement "$lock"
    install --no-deps --editable .
    cp "$lock" "$environment/installed"
  fi
  echo "Unit tests with $1 ($found)"
  "$environment/bin/python" -m pytest -q -n 2 --dist loadfile --hypothesis-profile=quick -p no:cacheprovider tests/unit
}

for version in $supported; do
  [ "$version" = "$own" ] || check "python-$version" "$version" dev
done
check lowest-versions "$oldest" lowest
