"""One completion request, ready for the engine, and its way back.

Owns what the prompts resolved to and the events that the engine's outputs become: each prompt is answered as a chat
without thinking or calls is, and its content is the continuation. One object a request, on the loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sluice.v1 import chat_pb2, completion_pb2, logprobs_pb2, sampling_pb2, usage_pb2

from service.engine.tokenizer import Tokenizer
from service.generation.output import GenerationOutput
from service.generation.request import GenerationRequest
from service.pipeline.logprobs import prompt_logprobs_of
from service.pipeline.prepared import Identity
from service.pipeline.prepared_chat import PreparedChat


@dataclass(frozen=True, slots=True)
class PreparedPrompt:
    """One prompt. `chat` has its generation and reads the answers; `echo` is the text that these begin with."""

    chat: PreparedChat
    echo: str


class PreparedCompletion:
    """A completion that the engine can run, a `Prepared`.

    `sampling` and `stopping` have every default filled in; `max_tokens` is that of the prompt with the most room.
    """

    def __init__(
        self,
        prompts: Sequence[PreparedPrompt],
        tokenizer: Tokenizer,
        *,
        suffix: str,
        prompt_logprobs: logprobs_pb2.LogprobsOptions | None,
    ) -> None:
        """`prompt_logprobs` asks for those of the prompts' tokens; None for none."""
        num_candidates = None if prompt_logprobs is None else prompt_logprobs.top_logprobs
        first = prompts[0].chat
        self.generations: Sequence[GenerationRequest] = [
            replace(prompt.chat.generation, prompt_logprobs=num_candidates) for prompt in prompts
        ]
        self.prompt_fields = [f"prompts[{index}]" for index in range(len(prompts))]
        self.sampling = first.sampling
        self.stopping = sampling_pb2.StopParams()
        self.stopping.CopyFrom(first.stopping)
        self.stopping.max_tokens = max(prompt.chat.stopping.max_tokens for prompt in prompts)
        self._n = first.generation.n
        self._chats = [prompt.chat for prompt in prompts]
        self._tokenizer = tokenizer
        self._with_prompt_logprobs = prompt_logprobs is not None
        self._prompt_logprobs: dict[int, list[logprobs_pb2.TokenLogprob]] = {}  # by the prompt's index
        self._choices = [
            _Choice(prompt_index * self._n + place, prompt.echo, suffix)
            for prompt_index, prompt in enumerate(prompts)
            for place in range(self._n)
        ]

    def started(self, identity: Identity) -> list[completion_pb2.StreamCompleteResponse]:
        """The event that a stream begins with."""
        started = completion_pb2.CompletionStarted(
            id=identity.id,
            created=identity.created,
            model=identity.model.name,
            system_fingerprint=identity.model.system_fingerprint,
            sampling=self.sampling,
            stopping=self.stopping,
            n=self._n,
        )
        return [completion_pb2.StreamCompleteResponse(started=started)]

    def events(self, output: GenerationOutput) -> list[completion_pb2.StreamCompleteResponse]:
        """What the engine's next output adds to the stream, without sequence numbers."""
        prompt_index = output.request_index
        if self._with_prompt_logprobs and prompt_index not in self._prompt_logprobs:
            # The first output of a prompt's first choice comes before any of its other choices'.
            token_ids = self.generations[prompt_index].prompt_token_ids
            found = prompt_logprobs_of(self._tokenizer, token_ids, output.prompt_logprobs)
            self._prompt_logprobs[prompt_index] = found
        choice = self._choices[prompt_index * self._n + output.choice_index]
        return choice.take(self._chats[prompt_index].events(output), self._prompt_logprobs.get(prompt_index, ()))

    def completed(self) -> list[completion_pb2.StreamCompleteResponse]:
        """The events that a stream ends with whose choices have all ended."""
        completed = completion_pb2.CompletionCompleted()
        return [*self.broken_off(), completion_pb2.StreamCompleteResponse(completed=completed)]

    def broken_off(self) -> list[completion_pb2.StreamCompleteResponse]:
        """The event that a stream ends with before its error."""
        return [completion_pb2.StreamCompleteResponse(usage=self.usage())]

    def usage(self) -> usage_pb2.Usage:
        """What the outputs so far cost, all prompts together."""
        usages = [chat.usage() for chat in self._chats]
        return usage_pb2.Usage(
            prompt_tokens=sum(usage.prompt_tokens for usage in usages),
            completion_tokens=sum(usage.completion_tokens for usage in usages),
            reasoning_tokens=sum(usage.reasoning_tokens for usage in usages),
            cached_tokens=sum(usage.cached_tokens for usage in usages),
        )

    def finish_reasons(self) -> list[chat_pb2.FinishReason]:
        """Why choices ended, those that did, in the order of their index."""
        return [reason for chat in self._chats for reason in chat.finish_reasons()]


class _Choice:
    """One continuation: the content of a chat's answer, with what stands before and after it."""

    def __init__(self, index: int, echo: str, suffix: str) -> None:
        self._index = index
        self._echo = echo
        self._suffix = suffix
        self._has_begun = False

    def take(
        self,
        chat_events: Iterable[chat_pb2.StreamChatResponse],
        prompt_logprobs: Sequence[logprobs_pb2.TokenLogprob],
    ) -> list[completion_pb2.StreamCompleteResponse]:
        """The events for those of the chat's choice. `prompt_logprobs` go into the first delta."""
        deltas: list[completion_pb2.CompletionDelta] = []
        finished = None
        for event in chat_events:
            if event.HasField("content_delta"):
                delta = self._delta(deltas)
                delta.text = event.content_delta.text
                delta.logprobs.extend(event.content_delta.logprobs)
            elif event.HasField("choice_finished"):
                finished = event.choice_finished
        if not self._has_begun:
            self._has_begun = True
            if self._echo or prompt_logprobs:
                first = deltas[0] if deltas else self._delta(deltas)
                first.text = self._echo + first.text
                first.prompt_logprobs.extend(prompt_logprobs)
        if finished is not None and self._suffix:
            last = deltas[-1] if deltas else self._delta(deltas)
            last.text += self._suffix
        events = [completion_pb2.StreamCompleteResponse(delta=delta) for delta in deltas]
        if finished is not None:
            finished.choice_index = self._index
            events.append(completion_pb2.StreamCompleteResponse(choice_finished=finished))
        return events

    def _delta(self, deltas: list[completion_pb2.CompletionDelta]) -> completion_pb2.CompletionDelta:
        """A new delta at the end of `deltas`."""
        deltas.append(completion_pb2.CompletionDelta(choice_index=self._index))
        return deltas[-1]
