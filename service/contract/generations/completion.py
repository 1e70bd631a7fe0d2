"""Completions: requests to values, events to the stream's messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sluice.v1 import completion_pb2, logprobs_pb2, prompt_pb2

from service.contract.generations.chat import choice_finished
from service.contract.parts.answer import logprob_messages, serving_values, timestamp, usage_message
from service.contract.parts.conversation import to_output_format, to_raw_prompt, to_schema
from service.contract.parts.new_tokens import TokenEmitter
from service.contract.parts.parameters import (
    given_sampling,
    sampling_message,
    stopping_message,
    to_logprobs,
    to_sampling,
    to_stopping,
)
from service.contract.parts.resume import to_resume
from service.contract.parts.timings import RequestClock, progress_message
from service.generation.outputs.events import (
    ChoiceFinished,
    Completed,
    Event,
    PromptLogprobs,
    PromptProgress,
    Started,
    Text,
    Tokens,
    Usage,
)
from service.generation.outputs.output import FinishReason
from service.generation.prompts.conversation import Conversation, Message, Prompt, RawText, Role, TextPart
from service.generation.requests.answer_request import AnswerRequest
from service.generation.requests.parameters import StopParams

_Event = completion_pb2.StreamCompleteResponse


def to_answer_request(request: completion_pb2.CompleteRequest) -> AnswerRequest:
    """Convert a validated request."""
    has_format = request.HasField("output_constraint")
    logprobs = to_logprobs(request)
    return AnswerRequest(
        model=request.model,
        prompts=tuple(_to_prompt(request, index) for index in range(len(request.prompts))),
        prompts_field="prompts",
        sampling=to_sampling(request.sampling),
        given=given_sampling(request.sampling),
        stopping=StopParams(max_tokens=1) if request.prompt_only else to_stopping(request.stopping),
        n=request.n if request.HasField("n") else 1,
        logprobs=logprobs,
        prompt_logprobs=(logprobs if request.echo else None) or to_logprobs(request, "prompt_logprobs"),
        skip_special_tokens=not request.HasField("skip_special_tokens") or request.skip_special_tokens,
        output_format=to_output_format(request.output_constraint) if has_format else None,
        wants_prompt_texts=request.echo,
        resume=to_resume(request),
        **serving_values(request.serving),
    )


def _to_prompt(request: completion_pb2.CompleteRequest, index: int) -> Prompt:
    """Return a prompt: raw, or a conversation of one user message."""
    field = f"prompts[{index}]"
    prompt = to_raw_prompt(request.prompts[index], field)
    is_raw = not request.HasField("use_raw_prompt") or request.use_raw_prompt
    if is_raw or not isinstance(prompt, RawText):
        return prompt
    message = Message(Role.USER, (TextPart(prompt.text),), field=field)
    schema = to_schema(request.output_constraint)
    return Conversation((message,), field=field, template_field="use_raw_prompt", cuts_text=True, schema=schema)


class CompletionRenderer:
    """Renders the events of one answer, without sequence numbers.

    For prompts in the chat template, only the content of the answer is rendered.
    """

    def __init__(self, request: completion_pb2.CompleteRequest) -> None:
        self._suffix = request.suffix
        self._prompt_only = request.prompt_only
        self._emitter = TokenEmitter(request)
        self._clock = RequestClock(request)
        self._n = 1
        self._prompt_texts: Sequence[str] = ()
        self._prompt_logprobs: dict[int, list[logprobs_pb2.TokenLogprob]] = {}  # by prompt index
        self._started_choices: set[int] = set()  # choices

    def render(self, events: Sequence[Event]) -> list[completion_pb2.StreamCompleteResponse]:
        """Return the messages for the events of one output, or for one other event."""
        if events and isinstance(events[0], Tokens):
            self._clock.add(events[0])
            messages = self._render_output(events[0].choice_index, events[1:])
            if (emitted := self._emitter.of_output(events[0])) is not None and not self._prompt_only:
                if not messages:
                    messages = [_Event(delta=completion_pb2.CompletionDelta(choice_index=events[0].choice_index))]
                messages[0].tokens.CopyFrom(emitted)
            return messages
        return [message for event in events for message in self._render_other(event)]

    def _render_output(self, choice_index: int, events: Sequence[Event]) -> list[completion_pb2.StreamCompleteResponse]:
        """Return the messages of one output's events: one with all deltas, and those of finished choices."""
        deltas: list[completion_pb2.CompletionDelta] = []
        finished: list[completion_pb2.StreamCompleteResponse] = []
        for event in events:
            match event:
                case Text(_, text, logprobs) if not self._prompt_only:
                    delta = completion_pb2.CompletionDelta(choice_index=choice_index, text=text)
                    delta.logprobs.extend(logprob_messages(logprobs))
                    deltas.append(delta)
                case PromptLogprobs(prompt_index, logprobs):
                    self._prompt_logprobs[prompt_index] = logprob_messages(logprobs)
                case ChoiceFinished():
                    if self._prompt_only:
                        event = ChoiceFinished(event.choice_index, FinishReason.LENGTH)  # noqa: PLW2901
                    finished.append(_Event(choice_finished=choice_finished(event)))
        if choice_index not in self._started_choices:
            self._begin(deltas, choice_index)
        if finished and self._suffix:
            _last(deltas, choice_index).text += self._suffix
        return [*(_Event(delta=delta) for delta in deltas), *finished]

    def _render_other(self, event: Event) -> Iterator[completion_pb2.StreamCompleteResponse]:
        """Yield the messages of an event that belongs to no output."""
        match event:
            case Started():
                yield self._started(event)
            case PromptProgress():
                yield _Event(prompt_progress=progress_message(event))
            case Usage():
                emitted = Usage(event.prompt_tokens, cached_tokens=event.cached_tokens) if self._prompt_only else event
                yield _Event(usage=usage_message(emitted))
            case Completed(_, receipt):
                completed = completion_pb2.CompletionCompleted(timings=self._clock.timings(), receipt=receipt)
                yield _Event(completed=completed)

    def _started(self, event: Started) -> completion_pb2.StreamCompleteResponse:
        """Return the stream's first message."""
        self._clock.start(event)
        self._n = event.n
        self._prompt_texts = event.prompt_texts
        started = completion_pb2.CompletionStarted(
            id=event.id,
            created=timestamp(event.created_ns),
            model=event.model,
            system_fingerprint=event.fingerprint,
            sampling=sampling_message(event.sampling),
            stopping=stopping_message(event.stopping),
            n=event.n,
            prompt_token_ids=[prompt_pb2.TokenIds(ids=token_ids) for token_ids in self._emitter.of_prompts(event)],
            prompt_tokens=map(len, event.prompt_token_ids),
        )
        return _Event(started=started)

    def _begin(self, deltas: list[completion_pb2.CompletionDelta], choice_index: int) -> None:
        """Add the echoed prompt and its log probabilities to the first delta of a choice."""
        self._started_choices.add(choice_index)
        prompt_index = choice_index // self._n
        text = self._prompt_texts[prompt_index] if self._prompt_texts else ""
        logprobs = self._prompt_logprobs.get(prompt_index, ())
        if text or logprobs:
            first = deltas[0] if deltas else _last(deltas, choice_index)
            first.text = text + first.text
            first.prompt_logprobs.extend(logprobs)


def _last(deltas: list[completion_pb2.CompletionDelta], choice_index: int) -> completion_pb2.CompletionDelta:
    """Return the last of `deltas`; a new one if there is none."""
    if not deltas:
        deltas.append(completion_pb2.CompletionDelta(choice_index=choice_index))
    return deltas[-1]
