"""Text generation: requests to values, events to the stream's messages with their times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from sluice.v1 import text_generation_pb2

from service.contract.parts.answer import FINISH_REASONS, serving_values, usage_message
from service.contract.parts.parameters import (
    given_sampling,
    sampling_message,
    stopping_message,
    to_sampling,
    to_stopping,
)
from service.contract.parts.resume import to_resume
from service.contract.parts.timings import duration_between, duration_if_over, progress_message
from service.generation.outputs.events import (
    ChoiceFinished,
    Completed,
    Event,
    PromptProgress,
    Started,
    Text,
    Tokens,
    Usage,
)
from service.generation.prompts.conversation import RawText
from service.generation.requests.answer_request import AnswerRequest
from service.generation.requests.parameters import DRAW_PARAMETERS

DEFAULT_MAX_TOKENS: Final = 20  # as in Triton's API

_Event = text_generation_pb2.StreamGenerateTextResponse


def to_answer_request(request: text_generation_pb2.GenerateTextRequest) -> AnswerRequest:
    """Convert a validated request."""
    sampling, stopping = to_sampling(request.sampling), to_stopping(request.stopping)
    return AnswerRequest(
        model=request.model,
        model_version=request.model_version,
        prompts=(RawText(request.text_input, "text_input"),),
        prompts_field="text_input",
        sampling=sampling if request.do_sample else sampling.as_greedy(),
        given=given_sampling(request.sampling) | (frozenset() if request.do_sample else frozenset(DRAW_PARAMETERS)),
        stopping=replace(stopping, max_tokens=stopping.max_tokens or DEFAULT_MAX_TOKENS),
        resume=to_resume(request),
        **serving_values(request.serving),
    )


class TextGenerationRenderer:
    """Renders the events of one answer, without sequence numbers: one delta for each of the engine's outputs."""

    def __init__(self, request: text_generation_pb2.GenerateTextRequest) -> None:
        self._token_times: list[float] | None = [] if request.perf_stat else None
        self._num_tokens = 0
        self._newest_token: float | None = None  # an instant of the engine's clock

    def render(self, events: Sequence[Event]) -> list[text_generation_pb2.StreamGenerateTextResponse]:
        """Return the messages for the events of one output, or for one other event."""
        if events and isinstance(events[0], Tokens):
            return list(self._render_output(events[0], events[1:]))
        return [message for event in events for message in _render_other(event)]

    def _render_output(
        self, tokens: Tokens, events: Sequence[Event]
    ) -> Iterator[text_generation_pb2.StreamGenerateTextResponse]:
        """Yield the messages of one output's tokens and events."""
        self._num_tokens += len(tokens.token_ids)
        if tokens.token_times:
            self._newest_token = tokens.token_times[-1]
        if self._token_times is not None:
            self._token_times.extend(tokens.token_times)
        timings = self._timings(tokens)
        text = "".join(event.text for event in events if isinstance(event, Text))
        finished = next((event for event in events if isinstance(event, ChoiceFinished)), None)
        if text or finished is None:
            delta = text_generation_pb2.TextGenerationDelta(
                text=text, num_generated_tokens=self._num_tokens, timings=timings
            )
            yield _Event(delta=delta)
        if finished is not None:
            yield self._finished(finished, tokens, timings)

    def _finished(
        self, event: ChoiceFinished, tokens: Tokens, timings: text_generation_pb2.GenerationTimings
    ) -> text_generation_pb2.StreamGenerateTextResponse:
        """Return the message that ends a choice."""
        finished = text_generation_pb2.TextGenerationFinished(
            finish_reason=FINISH_REASONS[event.reason],
            stop_sequence=event.stop_sequence,
            num_generated_tokens=self._num_tokens,
            timings=timings,
        )
        if self._token_times is not None:
            instants = pairwise([tokens.timings.arrived, *self._token_times])
            finished.timings.tokens.extend(duration_between(began, ended) for began, ended in instants)
        return _Event(finished=finished)

    def _timings(self, tokens: Tokens) -> text_generation_pb2.GenerationTimings:
        """Return the durations until now."""
        measured = tokens.timings
        return text_generation_pb2.GenerationTimings(
            queue_wait=duration_if_over(measured.arrived, measured.scheduled),
            first_token=duration_if_over(measured.arrived, measured.first_token),
            decode=duration_if_over(measured.first_token, self._newest_token),
            batch_size=tokens.batch_size,
        )


def _render_other(event: Event) -> Iterator[text_generation_pb2.StreamGenerateTextResponse]:
    """Yield the messages of an event that belongs to no output."""
    match event:
        case Started():
            started = text_generation_pb2.TextGenerationStarted(
                id=event.id,
                model=event.model,
                model_version=event.model_version,
                sampling=sampling_message(event.sampling),
                stopping=stopping_message(event.stopping),
            )
            yield _Event(started=started)
        case PromptProgress():
            yield _Event(prompt_progress=progress_message(event))
        case Usage():
            yield _Event(usage=usage_message(event))
        case Completed(_, receipt):
            yield _Event(completed=text_generation_pb2.TextGenerationCompleted(receipt=receipt))
