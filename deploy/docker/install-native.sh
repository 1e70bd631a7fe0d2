#!/bin/bash
# install-native.sh ENVIRONMENT: the native step, built by the system's C++ compiler, into an environment of install.sh.
set -euo pipefail
"$1/bin/pip" install --quiet --no-cache-dir --disable-pip-version-check --no-deps ./native
"$1/bin/python" -c "import sluice_native"
