#!/usr/bin/env bash
# Whether proto/ breaks the contract of the last release (proto/released/), or that of the branch $BASE. Tells both.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.cache/npm/node_modules/.bin:$PATH"
BASE=${BASE:-main}
old=$(mktemp -d)
trap 'rm -rf "$old"' EXIT
status=0

release=$(find proto/released -name '*.binpb' | sort -V | tail -n 1)
[ -n "$release" ] || { echo "proto/released/ has no release; make one with: make release-contract" >&2; exit 1; }
echo "against $release"
# A release is kept without what it imports. Descriptor sets are joined by writing one after the other.
buf build .cache/protovalidate --as-file-descriptor-set --exclude-source-info -o "$old/imports.binpb"
cat "$old/imports.binpb" "$release" >"$old/release.binpb"
buf breaking proto --against "$old/release.binpb" || status=1

echo "against the branch $BASE"
if git cat-file -e "$BASE:proto/sluice/v1/chat.proto" 2>/dev/null; then
    mkdir -p "$old/branch/.cache"
    git archive "$BASE" buf.yaml proto | tar -x -C "$old/branch"
    cp -r .cache/protovalidate "$old/branch/.cache/"
    buf breaking --against "$old/branch" || status=1
else
    echo "skipped: there is no contract on a branch $BASE"
fi
exit $status
