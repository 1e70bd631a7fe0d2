"""Measure the duration of each call.

Owns the measurement of `rpc.server.call.duration`. Only the loop's thread runs it.
"""

from __future__ import annotations

import time
from typing import Any, Final

import grpc
from opentelemetry.metrics import Histogram

from process.telemetry.attributes import ERROR_TYPE, RPC_METHOD, RPC_STATUS_CODE, RPC_SYSTEM_NAME
from service.call import current_call
from service.interceptors.policy import Behaviour, Context, Policy, outcome

_REASON: Final = "sluice.error.reason"


class CallDuration(Policy):
    """Records every call's seconds by method, status and, where it has one, its error's reason."""

    def __init__(self, histogram: Histogram) -> None:
        self._histogram = histogram

    async def apply(self, method: str, request: Any, context: Context, proceed: Behaviour) -> Any:
        began = time.monotonic()
        error: BaseException | None = None
        try:
            return await proceed(request, context)
        except BaseException as raised:
            error = raised
            raise
        finally:
            code = outcome(context, error)
            attributes = {RPC_SYSTEM_NAME: "grpc", RPC_METHOD: method, RPC_STATUS_CODE: code.name}
            if code is not grpc.StatusCode.OK:
                attributes[ERROR_TYPE] = code.name
                if (call := current_call()) is not None and call.reason:
                    attributes[_REASON] = call.reason
            self._histogram.record(time.monotonic() - began, attributes)
