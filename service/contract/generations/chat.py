"""Chats: requests to values, events to the stream's messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sluice.v1 import chat_pb2

from service.contract.parts.answer import FINISH_REASONS, logprob_messages, serving_values, timestamp, usage_message
from service.contract.parts.conversation import (
    reasoning_effort_value,
    to_functions,
    to_messages,
    to_output_format,
    to_reasoning_effort,
    to_schema,
    to_tool_choice,
)
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
    Reasoning,
    Started,
    Text,
    Tokens,
    ToolArguments,
    ToolCall,
    Usage,
)
from service.generation.prompts.conversation import Conversation
from service.generation.requests.answer_request import AnswerRequest

_Event = chat_pb2.StreamChatResponse


def to_conversation(request: chat_pb2.ChatRequest) -> Conversation:
    """Return the conversation with its tools."""
    return Conversation(
        messages=to_messages(request.messages),
        tools=to_functions(request.tools),
        tool_choice=to_tool_choice(request.tool_choice),
        parallel_tool_calls=not request.HasField("parallel_tool_calls") or request.parallel_tool_calls,
        reasoning_effort=to_reasoning_effort(request.reasoning_effort),
        default_effort=to_reasoning_effort(request.default_reasoning_effort),
        reasoning_budget=request.reasoning_budget if request.HasField("reasoning_budget") else None,
        continues=request.continue_final_message,
        opens_turn=not request.HasField("add_generation_prompt") or request.add_generation_prompt,
        template_variables=request.chat_template_kwargs,
        schema=to_schema(request.output_constraint),
    )


def to_answer_request(request: chat_pb2.ChatRequest) -> AnswerRequest:
    """Convert a validated request."""
    has_format = request.HasField("output_constraint")
    return AnswerRequest(
        model=request.model,
        prompts=(to_conversation(request),),
        prompts_field="messages",
        sampling=to_sampling(request.sampling),
        given=given_sampling(request.sampling),
        stopping=to_stopping(request.stopping),
        n=request.n if request.HasField("n") else 1,
        logprobs=to_logprobs(request),
        prompt_logprobs=to_logprobs(request, "prompt_logprobs"),
        skip_special_tokens=not request.HasField("skip_special_tokens") or request.skip_special_tokens,
        output_format=to_output_format(request.output_constraint) if has_format else None,
        resume=to_resume(request),
        **serving_values(request.serving),
    )


class ChatRenderer:
    """Renders the events of one answer, without sequence numbers."""

    def __init__(self, request: chat_pb2.ChatRequest) -> None:
        self._emitter = TokenEmitter(request)
        self._clock = RequestClock(request)

    def render(self, events: Sequence[Event]) -> list[chat_pb2.StreamChatResponse]:
        """Return the messages for the events of one output, or for one other event."""
        messages = [message for event in events for message in self._render(event)]
        if events and isinstance(events[0], Tokens):
            self._clock.add(events[0])
            self._add_tokens(events[0], messages)
        return messages

    def _add_tokens(self, tokens: Tokens, messages: list[chat_pb2.StreamChatResponse]) -> None:
        """Add the tokens of an output to the first message of its choice."""
        if (emitted := self._emitter.of_output(tokens)) is None:
            return
        first = next((message for message in messages if not message.HasField("prompt_logprobs")), None)
        if first is None:
            first = _Event(content_delta=chat_pb2.ContentDelta(choice_index=tokens.choice_index))
            messages.append(first)
        first.tokens.CopyFrom(emitted)

    def _render(self, event: Event) -> Iterator[chat_pb2.StreamChatResponse]:
        """Yield the messages of one event."""
        match event:
            case Text(choice_index, text, logprobs):
                delta = chat_pb2.ContentDelta(choice_index=choice_index, text=text)
                if logprobs:
                    delta.logprobs.extend(logprob_messages(logprobs))
                yield _Event(content_delta=delta)
            case Reasoning(choice_index, text):
                yield _Event(reasoning_delta=chat_pb2.ReasoningDelta(choice_index=choice_index, text=text))
            case ToolCall(choice_index, call_index, call_id, name):
                yield _Event(
                    tool_call_delta=chat_pb2.ToolCallDelta(
                        choice_index=choice_index, tool_call_index=call_index, id=call_id, name=name
                    )
                )
            case ToolArguments(choice_index, call_index, text):
                yield _Event(
                    tool_call_delta=chat_pb2.ToolCallDelta(
                        choice_index=choice_index, tool_call_index=call_index, arguments=text
                    )
                )
            case ChoiceFinished():
                yield _Event(choice_finished=choice_finished(event))
            case PromptLogprobs(_, logprobs):
                yield _Event(prompt_logprobs=chat_pb2.PromptLogprobs(logprobs=logprob_messages(logprobs)))
            case PromptProgress():
                yield _Event(prompt_progress=progress_message(event))
            case Usage() | Completed() | Started():
                yield self._frame(event)

    def _frame(self, event: Usage | Completed | Started) -> chat_pb2.StreamChatResponse:
        """Return the message for an event without a choice."""
        match event:
            case Usage():
                return _Event(usage=usage_message(event))
            case Completed():
                completed = chat_pb2.ChatCompleted(timings=self._clock.timings(), receipt=event.receipt)
                return _Event(completed=completed)
            case Started():
                self._clock.start(event)
                started = chat_pb2.ChatStarted(
                    id=event.id,
                    created=timestamp(event.created_ns),
                    model=event.model,
                    system_fingerprint=event.fingerprint,
                    sampling=sampling_message(event.sampling),
                    stopping=stopping_message(event.stopping),
                    prompt_tokens=event.num_prompt_tokens,
                    reasoning_effort=reasoning_effort_value(event.reasoning_effort),
                )
                for token_ids in self._emitter.of_prompts(event):
                    started.prompt_token_ids.extend(token_ids)
                return _Event(started=started)


def choice_finished(event: ChoiceFinished) -> chat_pb2.ChoiceFinished:
    """Return the message for the end of a choice of a chat or a completion."""
    return chat_pb2.ChoiceFinished(
        choice_index=event.choice_index,
        finish_reason=FINISH_REASONS[event.reason],
        stop_sequence=event.stop_sequence,
    )
