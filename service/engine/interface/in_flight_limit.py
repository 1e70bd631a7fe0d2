"""The limit of requests in flight, which an engine computes and Envoy enforces."""

from __future__ import annotations

from typing import NamedTuple


class InFlightLimit(NamedTuple):
    """The number of requests that may be in flight between Envoy and the engine.

    More than `burst` are an overload, during which `sustained` of them may be in flight. `is_overloaded` is True if the
    engine itself has rejected requests a moment ago. An answer ends every `interval_s` seconds, by the measured rate.
    """

    sustained: int
    burst: int
    is_overloaded: bool
    interval_s: float
