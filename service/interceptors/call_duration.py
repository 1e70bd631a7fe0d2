"""Measure `rpc.server.call.duration`. Runs on the event loop's thread only."""

from __future__ import annotations

import time
from typing import Any, Final

import grpc
from opentelemetry.metrics import Histogram

from process.telemetry.attributes import ERROR_TYPE, RPC_METHOD, RPC_STATUS_CODE, RPC_SYSTEM_NAME
from service.calls.call import current_call
from service.interceptors.policy import Behaviour, Context, Policy, outcome

_REASON: Final = "sluice.error.reason"


class CallDuration(Policy):
    """Records the duration of each call in seconds, by method, status and error reason."""

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
