#!/usr/bin/env bash
# Every static check; each runs even if an earlier one failed, and the names of those that failed come last.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PWD/.cache/npm/node_modules/.bin:$PATH"
failed=()
step() { local name=$1; shift; printf -- '-- %s\n' "$name"; "$@" || failed+=("$name"); }

generated() {  # generated/ is what `make generate` makes, and nothing else
    local out; out=$(mktemp -d)
    buf generate -o "$out" && diff -r -x __pycache__ "$out/generated" generated; local status=$?
    rm -rf "$out"; return $status
}
breaking() {  # the contract against the branch $BASE's
    git cat-file -e "$BASE:proto/sluice/v1/chat.proto" 2>/dev/null || { echo "no contract on a branch $BASE"; return 0; }
    local old; old=$(mktemp -d)
    git archive "$BASE" buf.yaml proto | tar -x -C "$old" && mkdir -p "$old/.cache" && cp -r .cache/protovalidate "$old/.cache/"
    buf breaking --against "$old"; local status=$?
    rm -rf "$old"; return $status
}
BASE=${BASE:-main}

step "ruff" ruff check .
step "ruff format" ruff format --check .
step "mypy" mypy
step "import-linter" lint-imports
step "buf lint" buf lint
step "buf format" buf format -d --exit-code proto
step "buf breaking" breaking
step "generated code" generated
step "envoy" bash -c 'for f in envoy/*.yaml; do envoy --mode validate -l warning -c "$f" || exit 1; done'

if [ ${#failed[@]} -gt 0 ]; then printf 'failed: %s\n' "${failed[@]}"; exit 1; fi
echo "all checks passed"
