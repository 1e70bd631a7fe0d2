"""An error in a dialect's format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from gateway.dialects.seam.failure import Failure


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """An error response of one dialect. `headers` are those that only this dialect sends."""

    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()


ToErrorResponse: TypeAlias = Callable[[Failure], ErrorResponse]
