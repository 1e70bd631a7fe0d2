"""Spans that have ids but record nothing, for processes without an exporter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, TraceFlags, Tracer


class UnrecordedTracer(Tracer):
    """A span's ids are those that a recording tracer would give it: log lines and the calls beneath have them."""

    def __init__(self) -> None:
        self._ids = RandomIdGenerator()

    def start_span(  # type: ignore[override]  # of the rest of what the API takes nothing is kept
        self, _name: str, context: Context | None = None, *_: Any, **_more: Any
    ) -> Span:
        """A child of the context's span; without one the first of a trace."""
        parent = trace.get_current_span(context).get_span_context()
        return NonRecordingSpan(
            SpanContext(
                parent.trace_id if parent.is_valid else self._ids.generate_trace_id(),
                self._ids.generate_span_id(),
                is_remote=False,
                trace_flags=parent.trace_flags if parent.is_valid else TraceFlags(TraceFlags.SAMPLED),
                trace_state=parent.trace_state,
            )
        )

    @contextmanager
    def start_as_current_span(  # type: ignore[override]  # what the API returns decorates coroutines, too
        self, name: str, context: Context | None = None, *_: Any, **_more: Any
    ) -> Iterator[Span]:
        """The span, active within."""
        span = self.start_span(name, context)
        with trace.use_span(span, record_exception=False, set_status_on_exception=False):
            yield span
