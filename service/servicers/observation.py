"""What telemetry learns of one generation.

Owns the histograms of its tokens and what its span tells of its parameters, choices and stages. Made and ended in the
call it observes, on the loop's thread. Knows neither engine nor pipeline: it is told what happens. What was asked and
answered gets onto the span only if it is given a content.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self

from opentelemetry.util.types import AttributeValue
from sluice.v1 import chat_pb2, sampling_pb2, usage_pb2

from service.generation.output import GenerationOutput, Timings
from service.generation.request import GenerationRequest
from service.pipeline.prepared import Identity
from service.servicers.content import finish_reason_name
from service.servicers.operation import Operation
from service.telemetry import Telemetry

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
        self._operation = Operation(telemetry, operation, model, deadline)
        self._stream = stream
        self._accountant: Accountant | None = None
        self._content = content
        self._num_tokens: dict[tuple[int, int], int] = {}  # by request and choice
        self._timings: dict[tuple[int, int], Timings] = {}  # of finished choices

    def __enter__(self) -> Self:
        self._operation.__enter__()
        self._operation.set({"gen_ai.request.stream": self._stream})
        return self

    def admitted(self, identity: Identity, accountant: Accountant) -> None:
        """The engine took the request."""
        self._accountant = accountant
        self._operation.answered_by(identity)
        self._operation.set(_request_attributes(accountant.sampling, accountant.stopping))
        num_choices = sum(generation.n for generation in accountant.generations)
        if num_choices > 1:
            self._operation.set({"gen_ai.request.choice.count": num_choices})

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
        self._time_tokens()
        if self._content is not None:
            self._operation.set(self._content.attributes())
        self._add_stages()
        self._operation.__exit__(kind, error, trace_back)

    def _account(self, accountant: Accountant) -> None:
        usage = accountant.usage()
        self._operation.used("input", usage.prompt_tokens)
        self._operation.used("output", usage.completion_tokens)
        self._operation.set(
            {
                "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
                "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
            }
        )
        if reasons := accountant.finish_reasons():
            names = [finish_reason_name(each) for each in reasons]
            self._operation.set({"gen_ai.response.finish_reasons": names})

    def _time_tokens(self) -> None:
        instruments, attributes = self._telemetry.instruments, self._operation.attributes
        first_tokens = [each.first_token - each.arrived for each in self._timings.values() if each.first_token]
        if first_tokens:
            instruments.time_to_first_token.record(min(first_tokens), attributes)
        for choice, timings in self._timings.items():
            num_more = self._num_tokens[choice] - 1
            if timings.first_token and timings.finished and num_more > 0:
                each = (timings.finished - timings.first_token) / num_more
                instruments.time_per_output_token.record(each, attributes)

    def _add_stages(self) -> None:
        """The spans beneath: those of the choice that ended last."""
        if not self._timings:
            return
        last = list(self._timings.values())[-1]
        self._operation.staged(
            [
                ("queue", last.arrived, last.scheduled),
                ("prefill", last.scheduled, last.first_token),
                ("decode", last.first_token, last.finished),
            ]
        )


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
