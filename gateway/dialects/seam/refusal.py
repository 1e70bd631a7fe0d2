"""An error in a dialect's shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from gateway.dialects.seam.failure import Failure


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error as one dialect answers it. The headers are those that only this dialect has."""

    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()


Refuse: TypeAlias = Callable[[Failure], Refusal]
