"""The identity of each call, and its log line.

Owns the request id: the caller's own if it is a plain one, else a new one. Makes the `Call` that all policies beneath
and the servicers find, and logs one line when it ends. Only the loop's thread runs it.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from typing import Any

from opentelemetry import trace

from process.telemetry.attributes import REQUEST_ID
from service.call import COST, Call, enter_call
from service.interceptors.policy import Behaviour, Context, Policy, outcome

_QUIET = frozenset({"sluice.v1.ModelService/GetLoad"})  # asked every other second, and worth no line if it is answered
_TIMEOUT = "x-sluice-timeout"
_TIMEOUT_FORM = re.compile(r"([0-9]{1,8})([HMSmun])")
_UNITS_S = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_PLAIN = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")

_log = logging.getLogger("sluice.access")


class RequestLog(Policy):
    """Names each call and logs how it ended; what was said in it is not told."""

    async def apply(self, method: str, request: Any, context: Context, proceed: Behaviour) -> Any:
        wants_cost = (COST, "true") in (context.invocation_metadata() or ())
        call = Call(method, _request_id(context), wants_cost=wants_cost, waited_s=waited_s(context))
        enter_call(call)
        trace.get_current_span().set_attribute(REQUEST_ID, call.request_id)
        began = time.monotonic()
        error: BaseException | None = None
        try:
            return await proceed(request, context)
        except BaseException as raised:
            error = raised
            raise
        finally:
            if error is not None or method not in _QUIET:
                status = outcome(context, error).name
                fields = {"method": method, "status": status, "duration_s": round(time.monotonic() - began, 6)}
                _log.info("call", extra={"fields": {**fields, **call.fields}})


def waited_s(context: Context) -> float | None:
    """Seconds since the call's arrival, in which gRPC kept it until its turn came.

    gRPC counts a call's time from its arrival on, and tells what is left of it, but not what it was: `grpc-timeout`
    stays with gRPC. So the gateway and Envoy tell the same once more.
    """
    remaining_s = context.time_remaining()
    for key, value in context.invocation_metadata() or ():
        if key == _TIMEOUT and remaining_s is not None and (told := _TIMEOUT_FORM.fullmatch(str(value))):
            return max(float(told[1]) * _UNITS_S[told[2]] - remaining_s, 0.0)
    return None


def _request_id(context: Context) -> str:
    for key, value in context.invocation_metadata() or ():
        if key == "x-request-id" and isinstance(value, str) and _PLAIN.fullmatch(value):
            return value
    return uuid.uuid4().hex
