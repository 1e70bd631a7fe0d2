"""Calls with short deadlines, on a machine of any speed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import grpc
from grpc import aio

from tests.service.fakes import Rejection, rejection_of

_Answer = TypeVar("_Answer")
_FIRST_S = 0.3


async def rejection_at_deadline(make_call: Callable[[float], Any], has_begun: Callable[[], bool]) -> Rejection:
    """Return the error of a call whose deadline passes while its request is computed.

    `make_call` gets the timeout in seconds. A call whose deadline has passed before `has_begun` proves nothing, and is
    made again with twice the time.
    """
    timeout_s = _FIRST_S
    while True:
        rejection = await rejection_of(make_call(timeout_s))
        if has_begun():
            return rejection
        timeout_s *= 2


async def answered_before_deadline(make_call: Callable[[float], Awaitable[_Answer]]) -> _Answer:
    """Return the answer to a call that truncates at its deadline.

    `make_call` gets the timeout in seconds. A call that gRPC has ended before the answer was sent, since the machine is
    slow, is made again with twice the time.
    """
    timeout_s = 10 * _FIRST_S
    while True:
        try:
            return await make_call(timeout_s)
        except aio.AioRpcError as error:
            assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED  # noqa: PT017  any other error is a failure
        timeout_s *= 2
