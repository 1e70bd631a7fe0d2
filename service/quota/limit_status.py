"""The state of a caller's limits, as headers in OpenAI's format."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from service.quota.limit import Limit, Measure

_NAMES = {
    Measure.REQUESTS: "requests",
    Measure.INPUT_TOKENS: "input-tokens",
    Measure.OUTPUT_TOKENS: "output-tokens",
}


@dataclass(frozen=True, slots=True)
class LimitStatus:
    """The rest of a limit per minute; `behind_s` is the number of seconds until it is complete again."""

    limit: Limit
    behind_s: float

    @property
    def num_left(self) -> int:
        """The number of tokens or requests left; 0 if more were used than allowed."""
        return max(0, int(self.limit.bucket.level(self.behind_s) + 1e-6))

    @property
    def share_left(self) -> float:
        """The fraction of the limit that is left; negative if more was used than allowed."""
        return self.limit.bucket.level(self.behind_s) / self.limit.value


def rate_limit_headers(statuses: Sequence[LimitStatus]) -> Iterator[tuple[str, str]]:
    """Yield the headers of the caller's most used limit per measure. Limits shared by all callers are not exposed.

    `tokens` is the limit of input or output tokens with the smaller fraction left.
    """
    tightest: dict[str, LimitStatus] = {}
    for each in statuses:
        if each.limit.caller and (name := _NAMES.get(each.limit.measure)) is not None:
            for kind in (name, "tokens") if name != "requests" else (name,):
                if kind not in tightest or each.share_left < tightest[kind].share_left:
                    tightest[kind] = each
    for kind, each in tightest.items():
        yield f"x-ratelimit-limit-{kind}", str(each.limit.value)
        yield f"x-ratelimit-remaining-{kind}", str(each.num_left)
        yield f"x-ratelimit-reset-{kind}", _duration(each.behind_s)


def _duration(seconds: float) -> str:
    """Format a duration like Go and OpenAI, rounded up: `0s`, `20ms`, `1.5s`, `6m0s`."""
    milliseconds = math.ceil(round(seconds * 1000, 3))
    if 0 < milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    return (f"{minutes}m" if minutes else "") + f"{rest / 1000:g}s"
