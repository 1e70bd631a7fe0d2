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
# Without the rules, so that a clean clone, which lacks protovalidate's file, can compare with it too.
plain=$(mktemp -d)
trap 'rm -rf "$plain"' EXIT
plugin='{"local": [".venv/bin/python", "tools/contract/protoc_gen_plain_proto.py"], "out": "'$plain'", "strategy": "all"}'
buf generate --config buf.rules.yaml --template '{"version": "v2", "plugins": ['"$plugin"']}'
buf build "$plain" --exclude-source-info -o "$release"
find proto/released -name '*.binpb' ! -name "$version.binpb" -delete
echo "wrote $release"
