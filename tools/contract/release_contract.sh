#!/usr/bin/env bash
# Store the contract as the release of pyproject.toml's version, replacing the previous release.
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
# Without imports: protovalidate's file is not part of the repository; tools/contract/breaking.sh adds it.
buf build --config buf.rules.yaml --path proto/sluice --as-file-descriptor-set --exclude-imports --exclude-source-info -o "$release"
find proto/released -name '*.binpb' ! -name "$version.binpb" -delete
echo "wrote $release"
