"""Telemetry of one generation, from the events of its answer.

The content of request and answer is put on the span only if an `AnswerContent` is given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from opentelemetry.util.types import AttributeValue

from service.answering.telemetry.content import AnswerContent
from service.answering.telemetry.finish_reason import finish_reason_name
from service.answering.telemetry.operation import Operation, Stage
from service.generation.outputs.events import ChoiceFinished, Event, Started, Tokens, Usage
from service.generation.outputs.output import Timings
from service.generation.requests.parameters import SamplingParams, StopParams, Trait, values_with
from service.generation.service_level import BATCH, ServiceLevel
from service.observability.telemetry import FINISH_REASON, SLO_CLASS, SLO_MET, Telemetry

_CACHED = "gen_ai.usage.cache_read.input_tokens"
_WRITTEN = "gen_ai.usage.cache_write.input_tokens"
_TEXT = "gen_ai.usage.text.input_tokens"
_IMAGE = "gen_ai.usage.image.input_tokens"
_MAX_INT = (1 << 63) - 1  # of OTLP's integers


class Observation:
    """`with Observation(…) as observation`: the span `{operation} {model}`, whose metrics are recorded on exit."""

    def __init__(
        self,
        telemetry: Telemetry,
        operation: str,
        model: str,
        deadline: float | None,
        *,
        stream: bool,
        content: AnswerContent | None = None,
    ) -> None:
        """`operation` is named as in the GenAI conventions; `deadline` is an instant of `time.monotonic()`."""
        self._telemetry = telemetry
        self._operation = Operation(telemetry, operation, model, deadline)
        self._stream = stream
        self._content = content
        self._newest_names = telemetry.inference_usage
        self._usage: Callable[[], Usage] | None = None
        self._service_level = BATCH
        self._num_tokens: dict[int, int] = {}  # by choice
        self._newest: dict[int, Timings] = {}  # by choice, once it has tokens
        self._newest_token: dict[int, float] = {}  # by choice, when it was sampled
        self._final_usage = Usage(0)
        self._finished: dict[int, str] = {}  # finish reasons by choice, in the order of their ends

    def __enter__(self) -> Self:
        self._operation.__enter__()
        self._operation.set({"gen_ai.request.stream": self._stream})
        return self

    def admitted(self, usage: Callable[[], Usage], service_level: ServiceLevel) -> None:
        """Record that the engine has admitted the request; `usage()` returns its usage so far."""
        self._usage = usage
        self._service_level = service_level

    def observe(self, events: Sequence[Event]) -> None:
        """Record events."""
        for event in events:
            match event:
                case Tokens():
                    self._count(event)
                case ChoiceFinished(index, reason):
                    self._finished[index] = finish_reason_name(reason)
                    attributes = {**self._operation.attributes, FINISH_REASON: self._finished[index]}
                    self._telemetry.instruments.choices.add(1, attributes)
                case Started():
                    self._start(event)
        if self._content is not None:
            self._content.add(events)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace_back: TracebackType | None
    ) -> None:
        if self._usage is not None:
            self._account(self._usage())
            newest = self._newest.values()
            compute_s, block_s = sum(each.compute_s for each in newest), sum(each.block_s for each in newest)
            self._operation.record_cost(compute_s, block_s, self._final_usage.cached_tokens)
        if self._newest_names is not None:
            usage = None if self._usage is None else self._final_usage
            error_type = None if error is None else self._operation.error_type(error)
            self._newest_names.record(usage, self._num_written(), self._operation.attributes, error_type)
        if not self._operation.is_batch:
            self._time_tokens()
        self._count_goodput()
        if self._content is not None:
            self._operation.set(self._content.attributes())
        self._add_stages()
        self._operation.__exit__(kind, error, trace_back)

    def _start(self, event: Started) -> None:
        """Record the effective parameters."""
        self._operation.set_response(event.id, event.model)
        self._operation.set(_request_attributes(event.sampling, event.stopping))
        num_choices = event.n * event.num_prompts
        if num_choices > 1:
            self._operation.set({"gen_ai.request.choice.count": num_choices})
        if self._newest_names is not None and event.reasoning_effort is not None:
            self._operation.set({"gen_ai.request.reasoning.level": event.reasoning_effort.value})

    def _count(self, tokens: Tokens) -> None:
        """Count the tokens of an output, and record the time between tokens."""
        index = tokens.choice_index
        self._num_tokens[index] = self._num_tokens.get(index, 0) + len(tokens.token_ids)
        self._newest[index] = tokens.timings
        if not tokens.token_times or self._operation.is_batch:
            return
        newest = tokens.token_times[-1]
        if (before := self._newest_token.get(index)) is not None:
            self._telemetry.instruments.inter_token_time.record(newest - before, self._operation.attributes)
        self._newest_token[index] = newest

    def _account(self, usage: Usage) -> None:
        """Record the numbers of tokens of the whole answer."""
        self._final_usage = usage
        self._operation.record_tokens("input", usage.prompt_tokens)
        self._operation.record_tokens("output", usage.completion_tokens)
        self._operation.set(
            {
                _CACHED: usage.cached_tokens,
                "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
            }
        )
        if self._newest_names is not None:
            self._operation.set({_WRITTEN: self._num_written()})
            if usage.image_tokens:
                num_text = usage.prompt_tokens - usage.image_tokens
                self._operation.set({_TEXT: num_text, _IMAGE: usage.image_tokens})
        if self._finished:
            names = [name for _, name in sorted(self._finished.items())]
            self._operation.set({"gen_ai.response.finish_reasons": names})

    def _num_written(self) -> int:
        """Return the number of prompt tokens added to the prefix cache; each counts once for all choices."""
        num_computed = self._final_usage.prompt_tokens - self._final_usage.cached_tokens
        return min(sum(each.num_written_tokens for each in self._newest.values()), num_computed)

    def _time_tokens(self) -> None:
        """Record the durations of queue, first token and decode when the stream ends."""
        instruments, attributes = self._telemetry.instruments, self._operation.attributes
        finished = {index: self._newest[index] for index in self._finished}
        first_tokens = [each.first_token - each.arrived for each in finished.values() if each.first_token]
        if waits := [each.scheduled - each.arrived for each in finished.values() if each.scheduled]:
            instruments.queue_time.record(min(waits), attributes)
        if first_tokens:
            instruments.time_to_first_token.record(min(first_tokens), attributes)
        for timings in finished.values():
            if timings.scheduled and timings.first_token:
                instruments.prefill_time.record(timings.first_token - timings.scheduled, attributes)
                break  # the other choices wait for the first one's prompt
        for index, timings in finished.items():
            num_more = self._num_tokens[index] - 1
            if timings.first_token and timings.finished and num_more > 0:
                decode_s = timings.finished - timings.first_token
                instruments.decode_time.record(decode_s, attributes)
                instruments.time_per_output_token.record(decode_s / num_more, attributes)

    def _count_goodput(self) -> None:
        """Count the finished choices by service class, and by whether it was met."""
        level = self._service_level
        for index in self._finished:
            timings, num_more = self._newest[index], self._num_tokens[index] - 1
            if timings.first_token is None or timings.finished is None:
                continue
            token_s = (timings.finished - timings.first_token) / num_more if num_more > 0 else 0.0
            is_met = level.is_met(timings.first_token - timings.arrived, token_s)
            attributes = {**self._operation.attributes, SLO_CLASS: level.class_name, SLO_MET: str(is_met).lower()}
            self._telemetry.instruments.slo_choices.add(1, attributes)

    def _add_stages(self) -> None:
        """Add the child spans of the choice that ended last."""
        if not self._finished:
            return
        index = list(self._finished)[-1]
        last, used = self._newest[index], self._final_usage
        prefill = {"gen_ai.usage.input_tokens": used.prompt_tokens, _CACHED: used.cached_tokens}
        decode = {"gen_ai.usage.output_tokens": self._num_tokens[index], "sluice.preemptions": last.num_preemptions}
        self._operation.add_stages(
            [
                Stage("queue", last.arrived, last.scheduled),
                Stage("prefill", last.scheduled, last.first_token, prefill),
                Stage("decode", last.first_token, last.finished, decode),
            ]
        )


def _request_attributes(sampling: SamplingParams, stopping: StopParams) -> dict[str, AttributeValue]:
    """Return a span's attributes for the parameters that telemetry shows."""
    shown = values_with(Trait.SPAN, sampling) | values_with(Trait.SPAN, stopping)
    return {f"gen_ai.request.{name}": value for name, value in shown.items() if value <= _MAX_INT}
