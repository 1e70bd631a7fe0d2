#!/usr/bin/env bash
# Check whether proto/ breaks the contract of the last release (proto/released/) or of the branch $BASE. Reports both.
set -euo pipefail
cd "$(dirname "$0")/../.."
export PATH="$PWD/.cache/npm/node_modules/.bin:$PATH"
BASE=${BASE:-main}
old=$(mktemp -d)
trap 'rm -rf "$old"' EXIT
status=0

release=$(find proto/released -name '*.binpb' | sort -V | tail -n 1)
[ -n "$release" ] || { echo "proto/released/ has no release; make one with: make release-contract" >&2; exit 1; }
echo "against $release"
config=buf.rules.yaml
[ "$release" != proto/released/0.1.0.binpb ] || config=buf.yaml  # whose exceptions later releases don't need
buf build --config buf.rules.yaml -o "$old/now.binpb"
buf breaking "$old/now.binpb" --config "$config" --against "$release" || status=1

echo "against the branch $BASE"
if git cat-file -e "$BASE:proto/sluice/v1/chat.proto" 2>/dev/null; then
    mkdir -p "$old/branch/.cache"
    git archive "$BASE" proto | tar -x -C "$old/branch"
    cp -r .cache/protovalidate "$old/branch/.cache/"
    buf breaking --config buf.rules.yaml --against "$old/branch" --against-config buf.rules.yaml || status=1
else
    echo "skipped: there is no contract on a branch $BASE"
fi
exit $status
