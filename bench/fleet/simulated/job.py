"""One request of the simulation."""

from __future__ import annotations

from dataclasses import dataclass

NEVER = float("inf")


@dataclass(slots=True, eq=False)
class Job:
    """A prompt, which consists of a shared part and its own part, and an answer. Units are seconds and tokens.

    `own_key` identifies the job's conversation, whose earlier turns its own part continues. `route_key` is the key of
    affinity.
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
    num_broken: int = 0  # times that its replica died while it had the job
    cached: int = 0  # prompt tokens that were cached when the job first began
    began: float = NEVER
    to_compute: int = 0
    generated: int = 0
    last_step: int = 0  # the step of its replica with which it ends
    held: int = 0  # tokens of the cache that are its own
    holds_shared: bool = False
    replica: int = -1

    @property
    def prompt(self) -> int:
        """The prompt's length."""
        return self.shared + self.own

    @property
    def gap_s(self) -> float:
        """The mean time between two tokens; 0 for a single one."""
        return (self.ended - self.first_token) / (self.answer - 1) if self.answer > 1 else 0.0
