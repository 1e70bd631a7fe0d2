"""One chat request, ready for the engine, and its way back.

Owns what the request resolved to and the events that the engine's outputs become. One object a request, on the loop.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sluice.v1 import chat_pb2, sampling_pb2, usage_pb2

from service.engine.tokenizer import Tokenizer
from service.generation.output import GenerationOutput
from service.generation.request import GenerationRequest
from service.pipeline.choice import ChoiceEvents
from service.pipeline.prepared import Identity
from service.pipeline.reasoning import ReasoningMarkers, ReasoningParser, Thinking
from service.pipeline.tool_syntax import ToolSyntax


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """How the answers of one request are read. `syntax` is None where no calls are looked for."""

    markers: ReasoningMarkers | None
    thinking: Thinking
    syntax: ToolSyntax | None
    names: Collection[str]


class PreparedChat:
    """A chat that the engine can run, a `Prepared`. `sampling` and `stopping` have every default filled in."""

    prompt_fields = ("messages",)

    def __init__(
        self,
        generation: GenerationRequest,
        sampling: sampling_pb2.SamplingParams,
        stopping: sampling_pb2.StopParams,
        tokenizer: Tokenizer,
        form: AnswerForm,
    ) -> None:
        self.generation = generation
        self.sampling = sampling
        self.stopping = stopping
        self._num_cached_tokens = 0
        self._choices = [
            ChoiceEvents(
                index,
                tokenizer,
                reasoning=ReasoningParser(form.markers, form.thinking) if form.markers else None,
                syntax=form.syntax,
                names=form.names,
                hidden_ids=tokenizer.special_token_ids if generation.skip_special_tokens else frozenset(),
                with_logprobs=generation.logprobs is not None,
            )
            for index in range(generation.n)
        ]

    @property
    def generations(self) -> Sequence[GenerationRequest]:
        """The one request of a chat."""
        return (self.generation,)

    def started(self, identity: Identity) -> list[chat_pb2.StreamChatResponse]:
        """The event that a stream begins with."""
        started = chat_pb2.ChatStarted(
            id=identity.id,
            created=identity.created,
            model=identity.model.name,
            system_fingerprint=identity.model.system_fingerprint,
            sampling=self.sampling,
            stopping=self.stopping,
        )
        return [chat_pb2.StreamChatResponse(started=started)]

    def events(self, output: GenerationOutput) -> list[chat_pb2.StreamChatResponse]:
        """What the engine's next output adds to the stream, without sequence numbers."""
        self._num_cached_tokens = max(self._num_cached_tokens, output.num_cached_tokens)
        return self._choices[output.choice_index].take(output)

    def completed(self) -> list[chat_pb2.StreamChatResponse]:
        """The events that a stream ends with whose choices have all ended."""
        return [*self.broken_off(), chat_pb2.StreamChatResponse(completed=chat_pb2.ChatCompleted())]

    def broken_off(self) -> list[chat_pb2.StreamChatResponse]:
        """The event that a stream ends with before its error."""
        return [chat_pb2.StreamChatResponse(usage=self.usage())]

    def finish_reasons(self) -> list[chat_pb2.FinishReason]:
        """Why choices ended, those that did, in the order of their index."""
        return [choice.finish_reason for choice in self._choices if choice.finish_reason is not None]

    def usage(self) -> usage_pb2.Usage:
        """What the outputs so far cost."""
        return usage_pb2.Usage(
            prompt_tokens=len(self.generation.prompt_token_ids),
            completion_tokens=sum(choice.num_tokens for choice in self._choices),
            reasoning_tokens=sum(choice.num_reasoning_tokens for choice in self._choices),
            cached_tokens=self._num_cached_tokens,
        )
