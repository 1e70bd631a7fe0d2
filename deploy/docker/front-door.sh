#!/bin/sh
# front-door.sh FLEET: run Envoy for the fleet of this file; SIGTERM ends it without losing requests.
set -eu
python -m runner.proxy.production "$1" >/tmp/envoy.yaml
exec python -m runner.proxy.front_door 127.0.0.1:9901 --fleet "$1" \
    --drain-timeout-s "${SLUICE_DRAIN_TIMEOUT_S:-20}" -- \
    envoy -c /tmp/envoy.yaml --log-level warning --disable-hot-restart
