#!/usr/bin/env bash
# Install the named parts, as the Makefile's targets do: tools/install.sh PART...
#   run       the product's Python packages
#   dev       those, and the packages for tests and checks
#   bench     those, and the server for comparison in benchmarks
#   llama     llama.cpp's server, for benchmarks; needs a C++ compiler and about ten minutes
#   native    the C++ backend (native/); needs a C++ compiler: the system's or, with NATIVE_COMPILER=zig, PyPI's
#   native-host  the same, with the instruction sets of this CPU only, in half the time
#   dist      a release in dist/ (tools/release/dist.py), and its build tools
#   cmake     a C++ compiler, CMake and ninja, to build native/ without Python
#   npm       buf, clients for tests (grpc-js, openai, @anthropic-ai/sdk, playwright), build tools of the TypeScript client
#   validate  protovalidate's .proto file, for buf
#   clients   other vendors' SDKs for tests, each in its own environment, since their dependencies conflict
#   examples  npm packages of the examples for Node, TypeScript and browsers
#   languages the toolchains of the other examples, as Debian packages
#   large-clients  clients too large for every test run: benchmarks, lm-eval, frameworks
#   browser   headless Chromium, for tests of pages
#   shell     shellcheck
#   audit     the scanner for known vulnerabilities
#   docs      the documentation's build tools
#   zig       PyPI's C compiler, for Envoy's filter
#   triton    Triton, for tests of the kernels for GPUs on a CPU
#   redis     Redis server, for tests of shared limits
#   postgres  PostgreSQL server, for tests of stored responses
#   prometheus  Prometheus and promtool, for tests of rules
#   ray       Ray, in its own environment, with the product's packages as a fallback
#   deploy    checks of containers and charts: hadolint, Helm's own code, Kubernetes' and Compose's schemas
# An installed part is skipped until a file that pins its versions changes.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/install/native.sh
. tools/install/clients.sh

say() { printf 'install: %s\n' "$*" >&2; }
fail() { printf 'install: %s\n' "$*" >&2; exit 1; }

apt() {  # system packages, which only root can install. `otherwise`, if set, is printed to other users
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        fail "$1 is missing; install it with: sudo apt-get install -y $*${otherwise:-}"
    fi
    say "installing Debian packages: $*"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; } >&2
}

python_environment() {  # .venv, made with pip, which installs uv (tools/pins.py)
    [ -x .venv/bin/pip ] && return
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "Python 3.11 or newer is required, but python3 is $(python3 -V)"
    python3 -m venv .venv 2>/dev/null || { apt python3-venv; python3 -m venv .venv; }
}

uv() { .venv/bin/python tools/pins.py uv "$@"; }

python_part() {  # python_part NAME EXTRAS: an editable install of this checkout
    local stamp=.venv/.installed-$1
    [ -f "$stamp" ] && [ "$stamp" -nt pyproject.toml ] && [ "$stamp" -nt constraints.txt ] && [ "$stamp" -nt requirements-embedding.txt ] && return
    python_environment
    say "installing Python packages ($1) into .venv; about 1 GB the first time"
    pinned .venv "build,$2"
    uv pip install --python .venv/bin/python --no-deps --no-build-isolation -e .
    uv pip install --python .venv/bin/python --no-deps --require-hashes -r requirements-embedding.txt
    touch "$stamp"
}

pinned() {  # pinned ENVIRONMENT EXTRAS [uv's OPTIONS]: what these extras need, by version and hash
    local environment=$1; shift
    .venv/bin/python tools/pins.py install "$environment/bin/python" "$@"
}

triton_part() {  # torch finds it only where it is named: it is 640 MB, and CPUs don't need it
    [ .cache/triton/.installed -nt constraints.txt ] && return
    say "installing Triton into .cache/triton; about 640 MB"
    pinned .venv triton --upgrade --target .cache/triton
    touch .cache/triton/.installed
}

tool_part() {  # tool_part EXTRA: a tool in a separate environment, for the target of its name
    local folder=.venvs/tool-$1
    python_environment  # without the product's packages
    [ "$folder/.installed" -nt constraints.txt ] && return
    say "installing $1 into $folder"
    [ -x "$folder/bin/python" ] || .venv/bin/python -m venv --without-pip "$folder"
    pinned "$folder" "$1"
    touch "$folder/.installed"
}

dist_part() {
    native_compiler "${NATIVE_COMPILER:-c++}"
    tool_part dist
    say "building a release into dist/; about two minutes"
    .venv/bin/python -m tools.release.dist && .venv/bin/python -m tools.release.dist_check
}

llama_part() {  # the sdist of its Python bindings holds llama.cpp whole
    local version=0.3.36 folder=.cache/llama.cpp tmp stamp
    stamp=$folder/.installed-$version-bench
    [ -f "$stamp" ] && [ -d "$folder/converter" ] && return
    command -v c++ >/dev/null || apt g++
    say "building llama.cpp into $folder; about ten minutes on two cores"
    tmp=$(mktemp -d)
    .venv/bin/pip install --quiet --disable-pip-version-check --target "$tmp/tools" cmake==4.4.4 ninja==1.13.2
    .venv/bin/pip download --quiet --disable-pip-version-check --no-deps --no-binary llama-cpp-python "llama-cpp-python==$version" -d "$tmp"
    tar -xzf "$tmp/llama_cpp_python-$version.tar.gz" -C "$tmp"
    local -x PATH=$tmp/tools/bin:$PATH PYTHONPATH=$tmp/tools
    # One program per tool, for this CPU, without downloads.
    if ! { cmake -G Ninja -S "$tmp/llama_cpp_python-$version/vendor/llama.cpp" -B "$tmp/build" -DCMAKE_BUILD_TYPE=Release \
        -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=ON -DLLAMA_BUILD_SERVER=ON -DLLAMA_BUILD_TESTS=OFF -DLLAMA_OPENSSL=OFF \
        -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF &&
        ninja -C "$tmp/build" llama-server llama-quantize llama-batched-bench; } >"$tmp/log" 2>&1; then
        fail "llama.cpp could not be built; see $tmp/log"
    fi
    mkdir -p "$folder/converter" && cp "$tmp"/build/bin/llama-{server,quantize,batched-bench} "$folder/"
    cp -r "$tmp/llama_cpp_python-$version/vendor/llama.cpp"/{convert_hf_to_gguf.py,conversion,gguf-py} "$folder/converter/"
    rm -rf "$tmp"
    touch "$stamp"
}

npm_part() {
    local stamp=.cache/npm/.installed
    [ -f "$stamp" ] && [ "$stamp" -nt tools/package.json ] && [ "$stamp" -nt tools/package-lock.json ] && return
    command -v npm >/dev/null || apt nodejs npm
    mkdir -p .cache/npm && cp tools/package{,-lock}.json .cache/npm/
    say "installing npm packages into .cache/npm"
    npm ci --prefix .cache/npm --silent --no-audit --no-fund
    touch "$stamp"
}

validate_part() {  # the last pure-Python release has buf/validate/validate.proto in its source archive
    local version=1.2.0 folder=.cache/protovalidate
    local hash=817951eab518442950f1982be24b2c3154b214b40e42f49b915cbf5181e6ee80
    [ -f "$folder/LICENSE" ] && return
    say "fetching protovalidate's .proto file into $folder"
    local tmp; tmp=$(mktemp -d)
    .venv/bin/pip download --quiet --disable-pip-version-check --no-deps --no-binary protovalidate "protovalidate==$version" -d "$tmp"
    mkdir -p "$folder"
    tar -xzf "$tmp/protovalidate-$version.tar.gz" -C "$folder" --strip-components=3 "protovalidate-$version/upstream/proto/buf"
    echo "$hash  $folder/buf/validate/validate.proto" | sha256sum --check --quiet || fail "protovalidate $version has another .proto file than when it was chosen"
    tar -xzf "$tmp/protovalidate-$version.tar.gz" -C "$folder" --strip-components=1 "protovalidate-$version/LICENSE"
    rm -rf "$tmp"
}

shell_part() {
    command -v shellcheck >/dev/null || apt shellcheck
}

prometheus_part() {
    command -v promtool >/dev/null || apt prometheus  # which brings both
}

ray_part() {  # 270 MB
    local folder=.venvs/ray packages
    [ "$folder/.installed" -nt constraints.txt ] && return
    say "installing Ray into $folder"
    rm -rf "$folder"
    .venv/bin/python -m venv --without-pip "$folder"
    pinned "$folder" ray
    packages=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    .venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >"$packages/product.pth"
    touch "$folder/.installed"
}

redis_part() {
    command -v redis-server >/dev/null || apt redis-server
}

postgres_part() {
    command -v initdb >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || apt postgresql
}

declare -A native_sets=([native]=all [native-host]="")  # by part; see host_sets
for part in "$@"; do
    case $part in native | native-host) native_build "${native_sets[$part]:=$(host_sets)}" ;; esac
done
for part in "$@"; do
    case $part in
        run) python_part run service,gateway,run ;;
        dev) python_part dev dev ;;
        bench) python_part bench bench ;;
        llama) llama_part ;;
        native | native-host) native_part "${native_sets[$part]}" ;;
        cmake) cmake_part ;;
        dist) dist_part ;;
        npm) npm_part ;;
        validate) validate_part ;;
        clients) clients_part ;;
        examples) examples_part ;;
        languages) languages_part ;;
        large-clients) large_clients_part ;;
        browser) browser_part ;;
        shell) shell_part ;;
        zig) zig_part ;;
        triton) triton_part ;;
        audit | docs | deploy) tool_part "$part" ;;
        prometheus) prometheus_part ;;
        ray) ray_part ;;
        redis) redis_part ;;
        postgres) postgres_part ;;
        *) fail "unknown part $part; the parts are: run dev bench llama native native-host dist cmake npm validate clients large-clients examples languages browser shell redis postgres ray prometheus deploy triton zig audit docs" ;;
    esac
done
