"""Token buckets, represented by one number: the time until a bucket is full again."""

from __future__ import annotations

from dataclasses import dataclass

PERIOD_S = 60.0
SLACK = 1e-6  # tokens; the tolerance for rounding errors


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket that holds `limit` tokens and is refilled with `limit` tokens per minute; `name` is unique.

    Its state is `behind_s`, the seconds until it is full, so that full buckets need no storage. A bucket whose level is
    negative is more than a minute behind.
    """

    name: str
    limit: int

    def level(self, behind_s: float) -> float:
        """Return the number of tokens in it; negative if more was taken than it held."""
        return self.limit - behind_s * self.limit / PERIOD_S

    def refill_s(self, num_tokens: float) -> float:
        """Return the seconds in which `num_tokens` are refilled."""
        return num_tokens * PERIOD_S / self.limit

    def wait_s(self, behind_s: float, num_tokens: float) -> float:
        """Return the seconds until it holds that number of tokens, at most its limit; 0 if it does now."""
        return max(0.0, self.refill_s(num_tokens - self.level(behind_s)))

    def holds(self, behind_s: float, num_tokens: float) -> bool:
        """Return whether it holds that number of tokens."""
        return self.level(behind_s) >= num_tokens - SLACK
