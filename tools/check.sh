#!/usr/bin/env bash
# Run every static check, even after a failure, and list the failed ones at the end.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
export PATH="$PWD/.venv/bin:$PWD/.cache/npm/node_modules/.bin:$PATH"
failed=()
step() { local name=$1; shift; printf -- '-- %s\n' "$name"; "$@" || failed+=("$name"); }

generated() {  # generated/ equals the output of `make generate`
    local out; out=$(mktemp -d)
    buf generate --config buf.rules.yaml -o "$out" && diff -r -x __pycache__ "$out/generated" generated; local status=$?
    rm -rf "$out"; return $status
}
envoy_configs() {  # Envoy accepts its file, and the one generated for a fleet
    local file fleet status=0; fleet=$(mktemp --suffix=.yaml)
    python -m runner.proxy.production envoy/fleet.yaml >"$fleet" || status=1
    for file in envoy/envoy.yaml "$fleet"; do envoy --mode validate -l warning -c "$file" || status=1; done
    rm "$fleet"; return $status
}

step "ruff" ruff check .
step "ruff format" ruff format --check .
step "mypy" mypy
step "import-linter" lint-imports
step "files that name a parameter" python -m tools.parameter_counts
step "sizes of packages and folders" python -m tools.rooms
step "buf lint" buf lint --config buf.rules.yaml
step "buf format" buf format -d --exit-code proto
step "buf breaking" tools/contract/breaking.sh
step "generated code" generated
step "Python client" .venv/bin/python tools/contract/python_client.py --check
step "envoy" envoy_configs
step "word list" python -m tools.word_list
step "shellcheck" shellcheck tools/*.sh tools/*/*.sh native/*.sh deploy/docker/*.sh .ci/run

if [ ${#failed[@]} -gt 0 ]; then printf 'failed: %s\n' "${failed[@]}"; exit 1; fi
echo "all checks passed"
