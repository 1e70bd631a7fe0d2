"""What telemetry learns of any call of a model.

The call's span, the spans beneath it, its duration and token usage, and its part of the call's log line.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self

from opentelemetry import trace
from opentelemetry.trace import Status, StatusCode
from opentelemetry.util.types import AttributeValue

from process.attributes import ERROR_TYPE
from service.call import DEADLINE_SLACK_S, current_call
from service.generation.errors import DeadlineExceeded
from service.telemetry import Telemetry

_PROVIDER = "sluice"
_CANCELLED = "Cancelled"


class Operation:
    """`with Operation(…) as operation`: the span `{name} {model}` from entry to exit, measured at exit."""

    def __init__(self, telemetry: Telemetry, name: str, model: str, deadline: float | None) -> None:
        """`name` is the GenAI conventions', such as `chat`; `deadline` an instant of `time.monotonic()`."""
        self._telemetry = telemetry
        self._model = model
        self._attributes = {
            "gen_ai.operation.name": name,
            "gen_ai.provider.name": _PROVIDER,
            "gen_ai.request.model": model,
        }
        self._name = f"{name} {model}"
        self._deadline = deadline

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self._epoch_ns = time.time_ns() - time.monotonic_ns()
        self._span = self._telemetry.tracer.start_span(self._name, attributes=self._attributes)
        if (call := current_call()) is not None:
            call.tell({"model": self._model})
        return self

    @property
    def attributes(self) -> Mapping[str, str]:
        """What the metrics of this call are told apart by."""
        return self._attributes

    def answered_by(self, answer_id: str, model: str) -> None:
        """The engine took the request; the answer will have this id, and is `model`'s."""
        self._attributes["gen_ai.response.model"] = model
        self.set({"gen_ai.response.id": answer_id, "gen_ai.response.model": model})

    def set(self, attributes: Mapping[str, AttributeValue]) -> None:
        """Put attributes onto the span."""
        self._span.set_attributes(attributes)

    def used(self, kind: str, num_tokens: int) -> None:
        """Count tokens; `kind` is `input` or `output`."""
        self.set({f"gen_ai.usage.{kind}_tokens": num_tokens})
        attributes = {**self._attributes, "gen_ai.token.type": kind}
        self._telemetry.instruments.token_usage.record(num_tokens, attributes)
        if (call := current_call()) is not None:
            call.tell({"prompt_tokens" if kind == "input" else "completion_tokens": num_tokens})

    def staged(self, stages: Iterable[tuple[str, float | None, float | None]]) -> None:
        """Put spans beneath: (name, beginning, end) by instants of `time.monotonic()`; one that lacks any is left out.

        They are made at once, so call it before the exit.
        """
        parent = trace.set_span_in_context(self._span)
        for name, began, ended in stages:
            if began is not None and ended is not None:
                span = self._telemetry.tracer.start_span(name, parent, start_time=self._instant(began))
                span.end(self._instant(ended))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace_back: TracebackType | None
    ) -> None:
        attributes = dict(self._attributes)
        if error is not None:
            attributes[ERROR_TYPE] = self._error_type(error)
            self._span.set_attribute(ERROR_TYPE, attributes[ERROR_TYPE])
            if attributes[ERROR_TYPE] != _CANCELLED:
                self._span.set_status(Status(StatusCode.ERROR))
        self._telemetry.instruments.request_duration.record(time.monotonic() - self._began, attributes)
        self._span.end()

    def _error_type(self, error: BaseException) -> str:
        if not isinstance(error, asyncio.CancelledError | GeneratorExit):
            return type(error).__name__
        is_late = self._deadline is not None and time.monotonic() > self._deadline - DEADLINE_SLACK_S
        return DeadlineExceeded.__name__ if is_late else _CANCELLED

    def _instant(self, monotonic_s: float) -> int:
        return self._epoch_ns + round(monotonic_s * 1e9)
