"""The latency that a request requires: its service level objective."""

from __future__ import annotations

import math
from typing import NamedTuple

# A class is interactive if its first token or its following ones have at most this much time.
_INTERACTIVE_FIRST_S = 2.0
_INTERACTIVE_TOKEN_S = 0.1


class ServiceLevel(NamedTuple):
    """Limits of an answer's latency, in seconds; None for no limit. Without any limit a request is batch work."""

    first_token_s: float | None = None  # from the arrival of the request to the first token
    token_s: float | None = None  # mean time between two tokens

    def or_else(self, default: ServiceLevel) -> ServiceLevel:
        """Return these limits, with those of `default` where there is none."""
        return ServiceLevel(
            *(default_limit if limit is None else limit for limit, default_limit in zip(self, default, strict=True))
        )

    @property
    def class_name(self) -> str:
        """The service class in metrics: `interactive`, `relaxed`, or `batch` without any limit."""
        if not any(self):
            return "batch"
        is_urgent = (self.first_token_s or math.inf) <= _INTERACTIVE_FIRST_S or (
            (self.token_s or math.inf) <= _INTERACTIVE_TOKEN_S
        )
        return "interactive" if is_urgent else "relaxed"

    def is_met(self, first_token_s: float, mean_token_s: float) -> bool:
        """Return whether an answer with these times is within the limits."""
        return (self.first_token_s is None or first_token_s <= self.first_token_s) and (
            self.token_s is None or mean_token_s <= self.token_s
        )


BATCH = ServiceLevel()
