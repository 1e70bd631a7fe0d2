"""The server span of each call.

Owns the span from the caller's `traceparent` on; it is the active one for all that happens in the call. Only the loop's
thread runs it. It knows the status that a call ends with, not why.
"""

from __future__ import annotations

from typing import Any

import grpc
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from process.telemetry.attributes import ERROR_TYPE, RPC_METHOD, RPC_STATUS_CODE, RPC_SYSTEM_NAME
from service.interceptors.policy import Behaviour, Context, Policy, outcome

# Of a server's view the others are the caller's doing, and no errors.
_SERVER_ERRORS = {
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DATA_LOSS,
}


class Tracing(Policy):
    """One SERVER span a call, ended on every way out with the status that the caller sees."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._propagator = TraceContextTextMapPropagator()

    async def apply(self, method: str, request: Any, context: Context, proceed: Behaviour) -> Any:
        carrier = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
        with self._tracer.start_as_current_span(
            method,
            context=self._propagator.extract(carrier),
            kind=SpanKind.SERVER,
            attributes={RPC_SYSTEM_NAME: "grpc", RPC_METHOD: method},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                response = await proceed(request, context)
            except BaseException as error:
                _mark(span, outcome(context, error))
                raise
            _mark(span, grpc.StatusCode.OK)
            return response


def _mark(span: Span, code: grpc.StatusCode) -> None:
    span.set_attribute(RPC_STATUS_CODE, code.name)
    if code in _SERVER_ERRORS:
        span.set_attribute(ERROR_TYPE, code.name)
        span.set_status(Status(StatusCode.ERROR))
