"""The number of instances of each component that a fleet needs, and the load of those that have only one."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Costs:
    """CPU time in µs, measured on the two cores described in `bench/README.md`.

    An event is sent at once: one token of a stream whose tokens are 10 ms or more apart. The costs of the store and of
    a health check are assumptions.
    """

    gateway_event: float = 80.0
    envoy_event: float = 28.0
    service_event: float = 86.0
    store_request: float = 3 * 25.0  # three round trips of scripts
    health_check: float = 150.0  # of a replica, per check by an Envoy


@dataclass(frozen=True)
class Need:
    """The needs of one fleet, in cores or processes that are 70 % busy."""

    replicas: int
    requests_per_s: float
    events_per_s: float
    service_loop: float  # utilization of each service's event loop
    gateways: int
    envoy_cores: int
    store: float  # utilization of the single store
    health_checks: float  # utilization of each replica by health checks


_FULL = 0.7
_ENVOY_CORES = 8  # of one Envoy


def need(
    replicas: int, requests_per_s: float, answer: float, costs: Costs | None = None, *, check_every_s: float = 1.0
) -> Need:
    """Return the needs of a fleet; `requests_per_s` is per replica, and `answer` is the events per answer."""
    costs = costs or Costs()
    requests = replicas * requests_per_s
    events = requests * answer
    envoy_cores = math.ceil(events * costs.envoy_event / 1e6 / _FULL)
    return Need(
        replicas,
        requests,
        events,
        requests_per_s * answer * costs.service_event / 1e6,
        math.ceil(events * costs.gateway_event / 1e6 / _FULL),
        envoy_cores,
        requests * costs.store_request / 1e6,
        math.ceil(envoy_cores / _ENVOY_CORES) / check_every_s * costs.health_check / 1e6,
    )
