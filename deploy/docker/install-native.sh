#!/bin/bash
# install-native.sh ENVIRONMENT: build the C++ backend with the system's compiler into an environment of install.sh.
set -euo pipefail
"$1/bin/pip" install --quiet --no-cache-dir --disable-pip-version-check --no-deps ./native
"$1/bin/python" -c "import sluice_native"
