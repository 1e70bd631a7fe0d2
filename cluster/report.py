"""What is heard of a replica."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from cluster.load import Load
from cluster.plan import ReplicaPhase
from runner.proxy.eds import Host


@dataclass(frozen=True, slots=True)
class Report:
    """What a replica says of itself; `problem` is why it has failed."""

    revision: str
    phase: ReplicaPhase
    host: Host
    load: Load
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Gone:
    """A replica has ended without being asked to."""

    problem: str


Answer: TypeAlias = Report | Gone
