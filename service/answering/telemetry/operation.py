"""Telemetry of any call to a model: its span and child spans, duration, token usage, and fields of its log line."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import NamedTuple, Self

from opentelemetry import trace
from opentelemetry.trace import Status, StatusCode
from opentelemetry.util.types import AttributeValue

from process.telemetry.attributes import ERROR_TYPE
from service.calls.call import DEADLINE_SLACK_S, current_call
from service.generation.errors import DeadlineExceeded
from service.observability.telemetry import ANONYMOUS, ENDPOINT, ENTITY, KEY, OTHERS, Telemetry

_PROVIDER = "sluice"
_CANCELLED = "Cancelled"


class Stage(NamedTuple):
    """A stage of a call between two instants of `time.monotonic()`. It has no span unless both are known."""

    name: str
    began: float | None
    ended: float | None
    attributes: Mapping[str, AttributeValue] = {}


class Operation:
    """`with Operation(…) as operation`: the span `{name} {model}`, whose metrics are recorded on exit."""

    def __init__(self, telemetry: Telemetry, name: str, model: str, deadline: float | None) -> None:
        """`name` is one of the GenAI conventions; `deadline` is an instant of `time.monotonic()`."""
        self._telemetry = telemetry
        self._model = model
        call = current_call()
        endpoint, entity = (call.endpoint, call.entity) if call is not None and call.endpoint else (model, model)
        self._route = {ENDPOINT: endpoint, ENTITY: entity}
        shown = endpoint
        if endpoint != model:
            labels = telemetry.endpoints.label(endpoint), telemetry.entities.label(f"{endpoint}/{entity}")
            shown = OTHERS if OTHERS in labels else endpoint
        self._attributes = {
            "gen_ai.operation.name": name,
            "gen_ai.provider.name": _PROVIDER,
            "gen_ai.request.model": model,
            ENDPOINT: shown,
            ENTITY: entity if shown == endpoint else shown,
        }
        self._key = (call.caller.id if call is not None else "") or ANONYMOUS
        self.is_batch = call is not None and call.caller.is_batch  # its times are no client's, and not recorded
        self._name = f"{name} {model}"
        self._deadline = deadline

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self._epoch_ns = time.time_ns() - time.monotonic_ns()
        self._span = self._telemetry.tracer.start_span(
            self._name, attributes={**self._attributes, **self._route, KEY: self._key}
        )
        if (call := current_call()) is not None:
            call.add_log_fields(
                {"model": self._model, "endpoint": self._route[ENDPOINT], "entity": self._route[ENTITY]}
            )
        return self

    @property
    def attributes(self) -> Mapping[str, str]:
        """The labels of this call's metrics."""
        return self._attributes

    def set_response(self, answer_id: str, model: str) -> None:
        """Set the id of the answer and the model that generates it, once the engine has admitted the request."""
        self._attributes["gen_ai.response.model"] = model
        self.set({"gen_ai.response.id": answer_id, "gen_ai.response.model": model})

    def set(self, attributes: Mapping[str, AttributeValue]) -> None:
        """Set attributes of the span."""
        self._span.set_attributes(attributes)

    def record_tokens(self, kind: str, num_tokens: int) -> None:
        """Record a number of tokens; `kind` is `input` or `output`."""
        self.set({f"gen_ai.usage.{kind}_tokens": num_tokens})
        attributes = {**self._attributes, "gen_ai.token.type": kind}
        self._telemetry.instruments.token_usage.record(num_tokens, attributes)
        if (call := current_call()) is not None:
            call.add_log_fields({"prompt_tokens" if kind == "input" else "completion_tokens": num_tokens})

    def record_cost(self, compute_s: float, block_s: float = 0.0, cached_tokens: int = 0) -> None:
        """Record the cost of the call on its span, in metrics, on its log line, and for a client that requests it.

        `compute_s` is its share of the steps' time, `block_s` cache blocks times seconds, `cached_tokens` the number of
        prompt tokens that were found in the cache.
        """
        self.set({"sluice.cost.compute": compute_s, "sluice.cost.block": block_s})
        attributes = {**self._attributes, KEY: self._telemetry.keys.label(self._key)}
        self._telemetry.instruments.compute_time.add(compute_s, attributes)
        self._telemetry.instruments.block_time.add(block_s, attributes)
        if (call := current_call()) is not None:
            call.add_log_fields(
                {"compute_s": round(compute_s, 6), "block_s": round(block_s, 6), "cached_tokens": cached_tokens}
            )
            call.cost = f"compute_s={compute_s:.6f}, block_s={block_s:.6f}, cached_tokens={cached_tokens}"

    def add_stages(self, stages: Iterable[Stage]) -> None:
        """Add a child span per stage. They are exported immediately, so call this before the exit."""
        parent = trace.set_span_in_context(self._span)
        for stage in stages:
            if stage.began is not None and stage.ended is not None:
                span = self._telemetry.tracer.start_span(
                    stage.name, parent, attributes=stage.attributes, start_time=self._instant(stage.began)
                )
                span.end(self._instant(stage.ended))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace_back: TracebackType | None
    ) -> None:
        attributes = dict(self._attributes)
        if error is not None:
            attributes[ERROR_TYPE] = self.error_type(error)
            self._span.set_attribute(ERROR_TYPE, attributes[ERROR_TYPE])
            if attributes[ERROR_TYPE] != _CANCELLED:
                self._span.set_status(Status(StatusCode.ERROR))
        instruments = self._telemetry.instruments
        if not self.is_batch:
            instruments.request_duration.record(time.monotonic() - self._began, attributes)
        instruments.requests.add(1, {**attributes, KEY: self._telemetry.keys.label(self._key)})
        self._span.end()

    def error_type(self, error: BaseException) -> str:
        """Return the error's type for telemetry; a cancellation at the deadline counts as a missed deadline."""
        if not isinstance(error, asyncio.CancelledError | GeneratorExit):
            return type(error).__name__
        is_late = self._deadline is not None and time.monotonic() > self._deadline - DEADLINE_SLACK_S
        return DeadlineExceeded.__name__ if is_late else _CANCELLED

    def _instant(self, monotonic_s: float) -> int:
        """Return a `time.monotonic()` instant as nanoseconds since the epoch."""
        return self._epoch_ns + round(monotonic_s * 1e9)
