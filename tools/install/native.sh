# shellcheck shell=bash
# The C++ backend and its compilers; part of tools/install.sh.

native_stamp=.venv/.installed-native
native_build=

host_sets() {  # the instruction sets of native/CMakeLists.txt that this CPU is best served by; all if that isn't known
    local flags
    flags=" $(grep -m1 '^flags' /proc/cpuinfo 2>/dev/null || true) "
    case $flags in
        *" amx_bf16 "*) echo "avx512bf16;amx" ;;  # the tile unit needs the kernel's permission
        *" avx512_bf16 "*) echo avx512bf16 ;;
        *" avx512bw "*) echo avx512 ;;
        *" avx2 "*) echo avx2 ;;
        *) echo all ;;
    esac
}

native_is_current() {  # native_is_current SETS
    case $(cat "$native_stamp" 2>/dev/null) in
        "${NATIVE_COMPILER:-c++} all" | "${NATIVE_COMPILER:-c++} $1") [ -z "$(find native -type f -newer "$native_stamp" -print -quit)" ] ;;
        *) false ;;
    esac
}

native_build() {  # native_build SETS: build native/ in the background, while other parts install packages
    native_is_current "$1" && return
    python_environment
    native_compiler "${NATIVE_COMPILER:-c++}"
    uv --version >/dev/null  # installs uv, once for both
    say "building native/ into .venv; about a minute"
    rm -rf .cache/native
    uv build --wheel --out-dir .cache/native --config-setting "cmake.define.SLUICE_SETS=${1/#all/}" ./native &
    native_build=$!
    trap 'kill "$native_build" 2>/dev/null || true' EXIT
}

native_part() {  # native_part SETS
    native_is_current "$1" && return
    wait "$native_build" || fail "native/ can't be built, and torch computes the models"
    uv pip install --python .venv/bin/python --no-deps --reinstall .cache/native/*.whl
    echo "${NATIVE_COMPILER:-c++} $1" >"$native_stamp"
}

native_compiler() {  # native_compiler c++|zig: what CMake needs to find that compiler
    local headers missing=() zig=$PWD/.cache/zig otherwise="; native/ isn't built, and torch computes the models"
    headers=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("include"))')
    [ -f "$headers/Python.h" ] || missing+=(python3-dev)
    case $1 in
        c++) command -v c++ >/dev/null || { missing=(g++ "${missing[@]}") otherwise+=" (NATIVE_COMPILER=zig needs no g++)"; } ;;
        zig) ;;
    esac
    if [ ${#missing[@]} -gt 0 ]; then apt "${missing[@]}"; fi
    if [ "$1" = c++ ]; then return; fi
    zig_part
    if [ ! "$zig/c++" -nt constraints.txt ]; then
        local tool
        # By default zig compiles for the CPU that it runs on, in all instruction sets.
        for tool in ar ranlib "c++ -mcpu=baseline"; do
            # shellcheck disable=SC2016  # "$@" is the wrapper's
            printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$zig/ziglang/zig" "$tool" >"$zig/${tool%% *}"
            chmod +x "$zig/${tool%% *}"
        done
    fi
    export CXX=$zig/c++ CMAKE_ARGS="-DCMAKE_AR=$zig/ar -DCMAKE_RANLIB=$zig/ranlib"
}

zig_part() {
    [ .cache/zig/.installed -nt constraints.txt ] && return
    say "installing the compiler zig into .cache/zig; about 400 MB"
    pinned .venv zig --upgrade --target .cache/zig
    touch .cache/zig/.installed
}

cmake_part() {
    command -v c++ >/dev/null || apt g++
    [ -x .venv/bin/ninja ] && [ -x .venv/bin/cmake ] && return
    python_environment
    say "installing CMake and ninja into .venv"
    # shellcheck disable=SC2046  # word splitting is intended
    .venv/bin/pip install --quiet --disable-pip-version-check $(grep -oE '(cmake|ninja)==[0-9.]+' native/pyproject.toml)
}
