"""The latency that a request requires: its service level objective."""

from __future__ import annotations

from typing import NamedTuple


class ServiceLevel(NamedTuple):
    """Limits of an answer's latency, in seconds; None for no limit. Without any limit a request is batch work."""

    first_token_s: float | None = None  # from the arrival of the request to the first token
    token_s: float | None = None  # mean time between two tokens

    def is_met(self, first_token_s: float, mean_token_s: float) -> bool:
        """Return whether an answer with these times is within the limits."""
        return (self.first_token_s is None or first_token_s <= self.first_token_s) and (
            self.token_s is None or mean_token_s <= self.token_s
        )


BATCH = ServiceLevel()
