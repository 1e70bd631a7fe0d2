"""Identify each call, and log it.

The request id is the client's if it is well-formed, else a new one. Creates the `Call` for the inner policies and the
servicers, and logs one line at its end. Runs on the event loop's thread only.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from typing import Any

from opentelemetry import trace

from process.telemetry.attributes import REQUEST_ID
from service.calls.call import COST, Call, enter_call
from service.interceptors.policy import Behaviour, Context, Policy, outcome
from service.interceptors.rpcs import HEALTH, MONITORING

_TIMEOUT = "x-sluice-timeout"
_TIMEOUT_FORM = re.compile(r"([0-9]{1,8})([HMSmun])")
_UNITS_S = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_PLAIN = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")

_log = logging.getLogger("sluice.access")


class RequestLog(Policy):
    """Creates the record of each call and logs its outcome, without the contents of messages."""

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
            if error is not None or method not in MONITORING | HEALTH:
                status = outcome(context, error).name
                fields = {"method": method, "status": status, "duration_s": round(time.monotonic() - began, 6)}
                _log.info("call", extra={"fields": {**fields, **call.fields}})


def waited_s(context: Context) -> float | None:
    """Return the time between a call's arrival and now, in which it waited in gRPC's queue, in seconds.

    gRPC counts a call's timeout from its arrival and exposes the remaining time, but not the original timeout. So the
    gateway and Envoy send the timeout in `x-sluice-timeout` as well.
    """
    remaining_s = context.time_remaining()
    for key, value in context.invocation_metadata() or ():
        if key == _TIMEOUT and remaining_s is not None and (timeout := _TIMEOUT_FORM.fullmatch(str(value))):
            return max(float(timeout[1]) * _UNITS_S[timeout[2]] - remaining_s, 0.0)
    return None


def _request_id(context: Context) -> str:
    """Return the id that the client has sent, if it is a plain one, or a new id."""
    for key, value in context.invocation_metadata() or ():
        if key == "x-request-id" and isinstance(value, str) and _PLAIN.fullmatch(value):
            return value
    return uuid.uuid4().hex
