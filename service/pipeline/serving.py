"""What a request's serving options mean to the engine.

Owns the way from the contract's options, and the deadline of the call, to the engine's own fields. Pure; any thread may
call it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from sluice.v1 import serving_pb2

# What is kept of the time before a call's deadline to end the answer and to send it: gRPC cancels the call right at it.
_MIN_MARGIN_S = 0.2
_MAX_MARGIN_S = 1.0
_MARGIN = 0.1


@dataclass(frozen=True, slots=True)
class Serving:
    """How one request is served. `deadline` is the engine's, an instant of `time.monotonic()` in seconds."""

    priority: int = 0
    cache_salt: str = ""
    deadline: float | None = None
    truncates: bool = False


def resolve_serving(given: serving_pb2.ServingOptions, deadline: float | None) -> Serving:
    """`given` with its defaults. `deadline` is the call's; a request that truncates is ended a little before it."""
    truncates = given.error_behavior == serving_pb2.ERROR_BEHAVIOR_TRUNCATE
    if truncates and deadline is not None:
        room_s = max(0.0, deadline - time.monotonic())
        deadline -= min(room_s / 2, max(_MIN_MARGIN_S, min(_MARGIN * room_s, _MAX_MARGIN_S)))
    return Serving(given.priority, given.cache_salt, deadline, truncates)
