"""The field `output_interval_ms` of this server, which requests an event for each token of a stream."""

from __future__ import annotations

from gateway.dialects.seam.failure import Failure


def check_interval(interval_ms: int | None, field: str) -> None:
    """Raise Failure for `field` unless it is 0 or omitted: other intervals are the operator's choice."""
    if interval_ms not in {None, 0}:
        raise Failure.of_field(field, "must be 0, which requests an event for each token")
