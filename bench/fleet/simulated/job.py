"""One request of the simulation."""

from __future__ import annotations

from dataclasses import dataclass

NEVER = float("inf")


@dataclass(slots=True, eq=False)
class Job:
    """A prompt of a part that others have too and a part of its own, and an answer. Seconds and tokens.

    `own_key` names what the own part goes on: the earlier turns of its conversation. Affinity goes by `route_key`.
    """

    arrived: float
    shared_key: int
    shared: int
    own_key: int
    own: int
    answer: int
    route_key: int
    turn: int = 0

    first_token: float = NEVER
    ended: float = NEVER
    refused: bool = False
    num_broken: int = 0  # times that its replica died under it
    cached: int = 0  # of the prompt, when it began for the first time
    began: float = NEVER
    to_compute: int = 0
    generated: int = 0
    last_step: int = 0  # of its replica, with which it ends
    held: int = 0  # tokens of the cache that are its own
    holds_shared: bool = False
    replica: int = -1

    @property
    def prompt(self) -> int:
        """Its length."""
        return self.shared + self.own

    @property
    def gap_s(self) -> float:
        """The mean time between two tokens; 0 for a single one."""
        return (self.ended - self.first_token) / (self.answer - 1) if self.answer > 1 else 0.0
