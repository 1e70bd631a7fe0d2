"""A model that is loaded on demand, with the requests and the keys that use it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

CLAIM_S: Final = 600.0  # how long a model is charged to a key after its last request
MAX_CLAIMS: Final = 1024  # of a model; those of the keys that used it longest ago are forgotten


@dataclass(eq=False, slots=True)
class Hold:
    """One request that uses a model, or waits for it."""

    model: str
    key: str
    since: float
    is_running: bool = False


@dataclass(slots=True)
class Claim:
    """The use of a model by a key."""

    used_at: float
    keep_s: float | None = None  # how long the model stays without requests; None: the key has not requested a time


@dataclass(slots=True)
class ResidentModel:
    """A model that is loaded on demand."""

    num_bytes: int
    is_pinned: bool
    is_loaded: bool = False
    used_at: float = -math.inf  # by its last request; one that was never used is unloaded first
    idle_since: float = 0.0  # its last request, or its load
    failed_until: float = -math.inf
    claims: dict[str, Claim] = field(default_factory=dict)  # by key: its last request since the load; newest last
    holds: list[Hold] = field(default_factory=list)  # oldest first

    @property
    def is_used(self) -> bool:
        return any(hold.is_running for hold in self.holds)

    def claim(self, key: str, now: float, keep_s: float | None) -> None:
        """Record that a key uses the model now."""
        self.used_at = self.idle_since = now
        self.claims.pop(key, None)
        self.claims[key] = Claim(now, keep_s)
        if len(self.claims) > MAX_CLAIMS:
            del self.claims[next(iter(self.claims))]

    def admit(self) -> None:
        """Let the requests run that wait for the model."""
        for hold in self.holds:
            hold.is_running = True

    def expires_at(self, idle_s: float | None) -> float:
        """Return when the model, which is loaded, is unloaded if it has no requests until then: never is infinite.

        That is when the time of each of its keys is over: that of the key's newest request, at most `idle_s`. A key
        that has requested no time has `idle_s`. Without that limit it has no end if it is the last key that used the
        model, and `CLAIM_S` if it isn't.
        """
        longest = math.inf if idle_s is None else idle_s
        if not self.claims:
            return self.idle_since + longest
        newest = next(reversed(self.claims.values()))

        def end(claim: Claim) -> float:
            if claim.keep_s is not None:
                return claim.used_at + min(claim.keep_s, longest)
            return claim.used_at + (longest if claim is newest else min(CLAIM_S, longest))

        return max(map(end, self.claims.values()))
