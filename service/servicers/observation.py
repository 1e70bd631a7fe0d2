"""What telemetry learns of one generation.

Owns its span, the spans beneath it, its histograms and its part of the call's log line. Made and ended in the call it
observes, on the loop's thread. Knows neither engine nor pipeline: it is told what happens. What was asked and answered
gets onto the span only if it is given a content.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self

from opentelemetry import trace
from opentelemetry.trace import Status, StatusCode
from opentelemetry.util.types import AttributeValue
from sluice.v1 import chat_pb2, sampling_pb2, usage_pb2

from service.call import DEADLINE_SLACK_S, current_call
from service.engine.errors import DeadlineExceeded
from service.engine.types import GenerationOutput, GenerationRequest, Timings
from service.pipeline.prepared import Identity
from service.servicers.content import finish_reason_name
from service.telemetry import ERROR_TYPE, Telemetry

_PROVIDER = "sluice"
_CANCELLED = "Cancelled"
_MAX_INT = (1 << 63) - 1  # of OTLP's integers


class Accountant(Protocol):
    """Who knows what was asked of the engine, and what it has cost so far."""

    @property
    def generations(self) -> Sequence[GenerationRequest]: ...

    @property
    def sampling(self) -> sampling_pb2.SamplingParams: ...

    @property
    def stopping(self) -> sampling_pb2.StopParams: ...

    def usage(self) -> usage_pb2.Usage: ...

    def finish_reasons(self) -> Sequence[chat_pb2.FinishReason]: ...


class Attributed(Protocol):
    """What has attributes for the span at its end."""

    def attributes(self) -> dict[str, str]: ...


class Observation:
    """`with Observation(…) as observation`: the span `{operation} {model}` from entry to exit, measured at exit."""

    def __init__(
        self,
        telemetry: Telemetry,
        operation: str,
        model: str,
        deadline: float | None,
        *,
        stream: bool,
        content: Attributed | None = None,
    ) -> None:
        """`operation` is the GenAI conventions' name, such as `chat`; `deadline` an instant of `time.monotonic()`."""
        self._telemetry = telemetry
        self._model = model
        self._attributes = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": _PROVIDER,
            "gen_ai.request.model": model,
        }
        self._name = f"{operation} {model}"
        self._deadline = deadline
        self._stream = stream
        self._accountant: Accountant | None = None
        self._content = content
        self._num_tokens: dict[tuple[int, int], int] = {}  # by request and choice
        self._timings: dict[tuple[int, int], Timings] = {}  # of finished choices

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self._epoch_ns = time.time_ns() - time.monotonic_ns()
        self._span = self._telemetry.tracer.start_span(
            self._name,
            attributes={**self._attributes, "gen_ai.request.stream": self._stream},
        )
        if (call := current_call()) is not None:
            call.tell({"model": self._model})
        return self

    def admitted(self, identity: Identity, accountant: Accountant) -> None:
        """The engine took the request."""
        self._accountant = accountant
        self._attributes["gen_ai.response.model"] = identity.model.name
        self._span.set_attributes(
            {
                "gen_ai.response.id": identity.id,
                "gen_ai.response.model": identity.model.name,
                **_request_attributes(accountant.sampling, accountant.stopping),
            }
        )
        num_choices = sum(generation.n for generation in accountant.generations)
        if num_choices > 1:
            self._span.set_attribute("gen_ai.request.choice.count", num_choices)

    def generated(self, output: GenerationOutput) -> None:
        """The engine generated something."""
        choice = (output.request_index, output.choice_index)
        self._num_tokens[choice] = self._num_tokens.get(choice, 0) + len(output.token_ids)
        if output.finish_reason is not None:
            self._timings[choice] = output.timings

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace_back: TracebackType | None
    ) -> None:
        if self._accountant is not None:
            self._account(self._accountant)
        attributes = dict(self._attributes)
        if error is not None:
            attributes[ERROR_TYPE] = self._error_type(error)
            self._span.set_attribute(ERROR_TYPE, attributes[ERROR_TYPE])
            if attributes[ERROR_TYPE] != _CANCELLED:
                self._span.set_status(Status(StatusCode.ERROR))
        self._telemetry.instruments.request_duration.record(time.monotonic() - self._began, attributes)
        self._time_tokens()
        if self._content is not None:
            self._span.set_attributes(self._content.attributes())
        self._add_stages()
        self._span.end()

    def _account(self, accountant: Accountant) -> None:
        usage = accountant.usage()
        self._span.set_attributes(
            {
                "gen_ai.usage.input_tokens": usage.prompt_tokens,
                "gen_ai.usage.output_tokens": usage.completion_tokens,
                "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
                "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
            }
        )
        if reasons := accountant.finish_reasons():
            self._span.set_attribute("gen_ai.response.finish_reasons", [finish_reason_name(each) for each in reasons])
        record = self._telemetry.instruments.token_usage.record
        record(usage.prompt_tokens, {**self._attributes, "gen_ai.token.type": "input"})
        record(usage.completion_tokens, {**self._attributes, "gen_ai.token.type": "output"})
        if (call := current_call()) is not None:
            call.tell({"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens})

    def _time_tokens(self) -> None:
        first_tokens = [each.first_token - each.arrived for each in self._timings.values() if each.first_token]
        if first_tokens:
            self._telemetry.instruments.time_to_first_token.record(min(first_tokens), self._attributes)
        for choice, timings in self._timings.items():
            num_more = self._num_tokens[choice] - 1
            if timings.first_token and timings.finished and num_more > 0:
                each = (timings.finished - timings.first_token) / num_more
                self._telemetry.instruments.time_per_output_token.record(each, self._attributes)

    def _error_type(self, error: BaseException) -> str:
        if not isinstance(error, asyncio.CancelledError | GeneratorExit):
            return type(error).__name__
        is_late = self._deadline is not None and time.monotonic() > self._deadline - DEADLINE_SLACK_S
        return DeadlineExceeded.__name__ if is_late else _CANCELLED

    def _add_stages(self) -> None:
        """The spans beneath: those of the choice that ended last."""
        if not self._timings:
            return
        last = list(self._timings.values())[-1]
        parent = trace.set_span_in_context(self._span)
        for name, began, ended in (
            ("queue", last.arrived, last.scheduled),
            ("prefill", last.scheduled, last.first_token),
            ("decode", last.first_token, last.finished),
        ):
            if began is not None and ended is not None:
                span = self._telemetry.tracer.start_span(name, parent, start_time=self._instant(began))
                span.end(self._instant(ended))

    def _instant(self, monotonic_s: float) -> int:
        return self._epoch_ns + round(monotonic_s * 1e9)


def _request_attributes(
    sampling: sampling_pb2.SamplingParams, stopping: sampling_pb2.StopParams
) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {
        "gen_ai.request.temperature": sampling.temperature,
        "gen_ai.request.top_p": sampling.top_p,
        "gen_ai.request.frequency_penalty": sampling.frequency_penalty,
        "gen_ai.request.presence_penalty": sampling.presence_penalty,
    }
    if sampling.HasField("top_k"):
        attributes["gen_ai.request.top_k"] = sampling.top_k
    if sampling.HasField("seed") and sampling.seed <= _MAX_INT:
        attributes["gen_ai.request.seed"] = sampling.seed
    if stopping.HasField("max_tokens"):
        attributes["gen_ai.request.max_tokens"] = stopping.max_tokens
    return attributes
