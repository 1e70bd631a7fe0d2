"""Token buckets, as arithmetic on one number: how long until a bucket is full again."""

from __future__ import annotations

from dataclasses import dataclass

PERIOD_S = 60.0
SLACK = 1e-6  # of a token, by which a level may seem too low after some arithmetic


@dataclass(frozen=True, slots=True)
class Bucket:
    """It holds `limit` tokens, and gets as many a minute until it is full; `name` tells it from all others.

    Its state is `behind_s`, the seconds until it is full: nothing needs to be kept of a bucket that is. A bucket that
    gave more than it held is more than a minute behind.
    """

    name: str
    limit: int

    def level(self, behind_s: float) -> float:
        """The tokens in it; below zero where it gave more than it held."""
        return self.limit - behind_s * self.limit / PERIOD_S

    def refill_s(self, num_tokens: float) -> float:
        """The seconds in which it gets so many tokens."""
        return num_tokens * PERIOD_S / self.limit

    def wait_s(self, behind_s: float, num_tokens: float) -> float:
        """The seconds until it holds so many tokens, which must not be above its limit; 0 if it does now."""
        return max(0.0, self.refill_s(num_tokens - self.level(behind_s)))

    def holds(self, behind_s: float, num_tokens: float) -> bool:
        """Whether it holds so many tokens."""
        return self.level(behind_s) >= num_tokens - SLACK
