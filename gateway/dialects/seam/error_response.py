"""An HTTP error response in a dialect's format, and the type of functions that create it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from gateway.dialects.seam.failure import Failure


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """The error response to one request. `headers` are those that only this dialect sends."""

    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()


ToErrorResponse: TypeAlias = Callable[[Failure], ErrorResponse]  # each dialect has one
