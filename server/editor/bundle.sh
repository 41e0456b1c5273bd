#!/usr/bin/env bash
# Bundle the studio's editor from locked packages, with its hash and the licences of what is in it.
set -euo pipefail
directory=$1
page=server/callability/studio/page
mkdir -p "$directory"
cp server/editor/package.json server/editor/package-lock.json server/editor/codemirror.js "$directory"
npm ci --prefix "$directory" --ignore-scripts --no-audit --no-fund --loglevel=error
"$directory/node_modules/.bin/esbuild" "$directory/codemirror.js" --bundle --minify --format=esm --target=es2022 \
  --legal-comments=none --charset=utf8 --log-level=warning --metafile="$directory/meta.json" --outfile="$page/codemirror.js"
python3 server/editor/licences.py "$directory" > "$page/codemirror.licences.txt"
(cd "$page" && sha256sum codemirror.js > codemirror.sha256)
