#!/usr/bin/env bash
# image.sh DIRECTORY [ROOT.tar]: builds the image over a root of Debian's packages, without a registry of images, and asks
# the service in it for its health. It needs root, buildah and mmdebstrap.
set -euo pipefail
directory=$1
root=${2:-$directory/root.tar}
mkdir -p "$directory/build"
trap 'rm -rf "$directory"/{build,storage,run,root.tar}' EXIT
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
buildah() { command buildah --root "$directory/storage" --runroot "$directory/run" "$@"; }
[ -e "$root" ] || mmdebstrap --quiet --variant=minbase --include=python3,python3-venv "$(. /etc/os-release; echo "$VERSION_CODENAME")" "$root"
sed -n 's/ \\$//; /^[a-z0-9].*==/p' ops/requirements/dev.txt > "$directory/build/constraints.txt"
"$BIN/python" -m pip wheel --quiet --disable-pip-version-check --constraint "$directory/build/constraints.txt" \
  --wheel-dir "$directory/build/wheels" '.[policy,bundle]'
base=$(buildah from scratch)
buildah add --quiet "$base" "$root" / >/dev/null
buildah commit --quiet "$base" localhost/base >/dev/null
buildah build --quiet --build-arg BASE=localhost/base --file ops/container/Containerfile --tag localhost/callability \
  "$directory/build" >/dev/null
container=$(buildah from localhost/callability)
# Each line is compared by the test.
buildah run "$container" -- sh -c '
  id -u
  callability serve --address 127.0.0.1:0 > /tmp/address 2> /tmp/log &
  until grep -q "^listening on" /tmp/address; do kill -0 $! || { cat /tmp/log; exit 1; }; sleep 1; done
  callability healthcheck --address "$(sed "s/^listening on //" /tmp/address)" --timeout 30
  kill $!
  wait $! && echo stopped
  callability healthcheck --address 127.0.0.1:1 --timeout 1 2> /dev/null || echo "exit code $?"
  callability serve --policy /tmp/log --bundle-key 2026=/tmp/none.pem --address 127.0.0.1:0 2>&1 | head -n 1'
