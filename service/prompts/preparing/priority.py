"""The priorities that a caller may use."""

from __future__ import annotations

from service.generation.caller import Caller
from service.generation.errors import InvalidRequest


def check_priority(priority: int, caller: Caller) -> None:
    """Raise InvalidRequest for a priority below the key's minimum; lower values are served earlier."""
    if priority < caller.min_priority:
        raise InvalidRequest(
            "serving.priority", f"priority must be at least {caller.min_priority} with this key, not {priority}"
        )
