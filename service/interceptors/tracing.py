"""Open the server span of each call.

The span continues the client's `traceparent` and is active during the call. It has the status of the call, not the
cause of an error. Runs on the event loop's thread only.
"""

from __future__ import annotations

from typing import Any

import grpc
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from process.telemetry.attributes import ERROR_TYPE, RPC_METHOD, RPC_STATUS_CODE, RPC_SYSTEM_NAME
from service.interceptors.policy import Behaviour, Context, Policy, outcome
from service.interceptors.rpcs import HEALTH

# The statuses that are errors of the server; the others are caused by the client.
_SERVER_ERRORS = {
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DATA_LOSS,
}


class Tracing(Policy):
    """Opens one SERVER span per call and ends it on every exit path with the status that the client receives."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._propagator = TraceContextTextMapPropagator()

    async def apply(self, method: str, request: Any, context: Context, proceed: Behaviour) -> Any:
        if method in HEALTH:  # each probe would be a trace
            return await proceed(request, context)
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
    """Set a span's status; client errors are no errors of the server."""
    span.set_attribute(RPC_STATUS_CODE, code.name)
    if code in _SERVER_ERRORS:
        span.set_attribute(ERROR_TYPE, code.name)
        span.set_status(Status(StatusCode.ERROR))
