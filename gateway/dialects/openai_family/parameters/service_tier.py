"""The tier of service that a request asks for. There is one, which answers state, as those of OpenAI's server do."""

from __future__ import annotations

from typing import Final

from gateway.dialects.seam.failure import Failure, Reason

TIER: Final = "default"  # that of every answer
_REQUESTED: Final = frozenset(
    {"auto", "default", "flex", "priority", "scale", "on_demand", "performance"}  # OpenAI's and Groq's
)


def check_tier(tier: str | None) -> None:
    """Raise Failure for an unknown tier. A known one has no effect."""
    if tier is not None and tier not in _REQUESTED:
        text = f"must be one of {', '.join(sorted(_REQUESTED))}"
        raise Failure.of_field("service_tier", text, Reason.UNSUPPORTED_FIELD)
