#!/usr/bin/env bash
# Debian's chromium, for the tests of the page: quick where it is there, and never in the way of the other tests.
set -uo pipefail
browser() { command -v chromium >/dev/null; }
# Where there is no network, it is given up soon.
apt() { DEBIAN_FRONTEND=noninteractive timeout 300 apt-get --yes --quiet -o Acquire::Retries=0 -o Acquire::http::Timeout=20 "$@"; }
install() { apt install --no-install-recommends chromium fonts-dejavu-core; }
if browser; then
  exit 0
elif [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo 'There is no chromium, and only root can install it by apt-get: tests of the page are skipped' >&2
elif ! { install || { apt update && install; }; } >/dev/null 2>&1; then
  echo 'Chromium cannot be installed by apt-get: tests of the page are skipped' >&2
fi
exit 0
