#!/usr/bin/env bash
# busy.sh COMMAND...: run a command while a busy loop for each core competes with it, and return its exit code.
set -uo pipefail
loops=()
trap 'kill "${loops[@]}" 2>/dev/null' EXIT
for _ in $(seq "$(nproc)"); do
    while :; do :; done &
    loops+=($!)
done
"$@"
