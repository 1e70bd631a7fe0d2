#!/bin/sh
# Build with AddressSanitizer and UndefinedBehaviorSanitizer and run the fuzzer: sanitize.sh [rounds] [seed]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${SLUICE_SANITIZE_BUILD:-$here/build/sanitize}
cmake -G Ninja -S "$here" -B "$build" -DSLUICE_SANITIZE=ON -DSLUICE_PYTHON=OFF >/dev/null
cmake --build "$build"
"$build/fuzz_step" "$@"
