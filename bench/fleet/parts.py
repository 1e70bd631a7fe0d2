"""How many of each part a fleet needs, and where a single one is full."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Costs:
    """Processor time in µs, as measured on the two cores that `bench/README.md` is about.

    An event is what leaves at once: one token of a stream whose tokens come 10 ms or more apart. A request's own are
    of its beginning and end. What the store and a health check cost is an assumption.
    """

    gateway_event: float = 80.0
    envoy_event: float = 28.0
    service_event: float = 86.0
    store_request: float = 3 * 25.0  # three round trips of scripts
    health_check: float = 150.0  # of a replica, each time that an Envoy asks


@dataclass(frozen=True)
class Need:
    """What one fleet needs, in cores or processes that are 70 % busy."""

    replicas: int
    requests_per_s: float
    events_per_s: float
    service_loop: float  # how busy each service's event loop is
    gateways: int
    envoy_cores: int
    store: float  # how busy the one store is
    health_checks: float  # how busy each replica is with these


_FULL = 0.7
_ENVOY_CORES = 8  # of one Envoy


def need(
    replicas: int, requests_per_s: float, answer: float, costs: Costs | None = None, *, check_every_s: float = 1.0
) -> Need:
    """Of so many replicas with so many requests a second each, whose answers have so many events."""
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
