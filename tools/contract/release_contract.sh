#!/usr/bin/env bash
# Keeps the contract as the release that pyproject.toml's version names, in place of the release before.
set -euo pipefail
cd "$(dirname "$0")/../.."
export PATH="$PWD/.venv/bin:$PWD/.cache/npm/node_modules/.bin:$PATH"

version=$(python -c 'import pathlib, tomllib; print(tomllib.loads(pathlib.Path("pyproject.toml").read_text())["project"]["version"])')
release=proto/released/$version.binpb
if [ -e "$release" ]; then
    echo "$release exists: $version is released; raise the version in pyproject.toml first" >&2
    exit 1
fi
mkdir -p proto/released
# Without imports: protovalidate's file isn't ours to keep, and tools/contract/breaking.sh adds it.
buf build --config buf.rules.yaml --path proto/sluice --as-file-descriptor-set --exclude-imports --exclude-source-info -o "$release"
find proto/released -name '*.binpb' ! -name "$version.binpb" -delete
echo "wrote $release"
