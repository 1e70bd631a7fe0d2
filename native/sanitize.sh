#!/bin/sh
# Build with sanitizers and run the fuzzer: sanitize.sh memory|threads [rounds] [seed]
#   memory   AddressSanitizer and UndefinedBehaviorSanitizer
#   threads  ThreadSanitizer
set -eu
case ${1-} in
    memory) sanitizers=address,undefined ;;
    threads) sanitizers=thread ;;
    *) sed -n '2,4s/^# //p' "$0" >&2; exit 2 ;;
esac
here=$(cd "$(dirname "$0")" && pwd)
build=${SLUICE_SANITIZE_BUILD:-$here/build/sanitize-$1}
shift
cmake -G Ninja -S "$here" -B "$build" -DSLUICE_SANITIZE="$sanitizers" -DSLUICE_PYTHON=OFF >/dev/null
cmake --build "$build"
"$build/fuzz_step" "$@"
