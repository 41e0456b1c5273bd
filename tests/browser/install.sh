#!/usr/bin/env bash
# Debian's chromium, for the tests of the page: quick where it is there, and never in the way of the other tests.
set -uo pipefail
browser() { command -v chromium >/dev/null; }
install() { DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends chromium fonts-dejavu-core; }
if browser; then
  exit 0
elif [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo 'There is no chromium, and only root can install it by apt-get: tests of the page are skipped' >&2
elif ! { install || { apt-get update --quiet && install; }; } >/dev/null 2>&1; then
  echo 'Chromium cannot be installed by apt-get: tests of the page are skipped' >&2
fi
exit 0
