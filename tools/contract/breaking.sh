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
# Releases are stored without their imports. Concatenating descriptor sets merges them.
buf build .cache/protovalidate --as-file-descriptor-set --exclude-source-info -o "$old/imports.binpb"
cat "$old/imports.binpb" "$release" >"$old/release.binpb"
buf build --config buf.rules.yaml -o "$old/now.binpb"
cp buf.rules.yaml "$old/rules.yaml"
if [ "$release" = proto/released/0.1.0.binpb ]; then  # which has no names for languages; later ones keep theirs
    names=(CSHARP_NAMESPACE GO_PACKAGE JAVA_MULTIPLE_FILES JAVA_OUTER_CLASSNAME JAVA_PACKAGE OBJC_CLASS_PREFIX)
    names+=(PHP_METADATA_NAMESPACE PHP_NAMESPACE RUBY_PACKAGE)
    (IFS=,; printf '  except: [%s]\n' "${names[*]/#/FILE_SAME_}") >>"$old/rules.yaml"
fi
buf breaking "$old/now.binpb" --config "$old/rules.yaml" --against "$old/release.binpb" || status=1

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
