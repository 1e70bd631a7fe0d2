"""Completions of `sluice.v1` to messages of vLLM's engine service."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sluice.v1 import chat_pb2, completion_pb2, logprobs_pb2
from sluice.vllm import engine_pb2

_FINISH_REASONS: Final = {chat_pb2.FINISH_REASON_STOP: "stop", chat_pb2.FINISH_REASON_LENGTH: "length"}
_ABORTED: Final = "abort"


@dataclass(slots=True)
class _Choice:
    """A choice so far."""

    num_tokens: int = 0
    last_token_id: int | None = None
    finished: chat_pb2.ChoiceFinished | None = None


class TokenAnswers:
    """The messages of one request's answer."""

    def __init__(self, request: engine_pb2.GenerateRequest) -> None:
        self._params = request.sampling_params
        self._choices = [_Choice() for _ in range(max(request.sampling_params.n, 1))]
        self._num_prompt_tokens = 0
        self._num_cached_tokens = 0

    def whole(self, answer: completion_pb2.CompleteResponse) -> Iterator[engine_pb2.GenerateResponse]:
        """Yield one message for each choice of a whole answer."""
        usage = answer.usage
        self._num_prompt_tokens, self._num_cached_tokens = usage.prompt_tokens, usage.cached_tokens
        for given in answer.choices:
            choice = self._choices[given.index]
            choice.num_tokens, choice.last_token_id = len(given.token_ids), given.token_ids[-1]
            choice.finished = chat_pb2.ChoiceFinished(
                finish_reason=given.finish_reason,
                stop_sequence=given.stop_sequence if given.HasField("stop_sequence") else None,
            )
            message = self._complete(given.index)
            message.complete.output_ids.extend(given.token_ids)
            if self._params.HasField("logprobs"):
                message.complete.output_logprobs.CopyFrom(self._output_logprobs(given.logprobs))
            if self._params.HasField("prompt_logprobs"):
                message.complete.input_logprobs.CopyFrom(self._input_logprobs(given.prompt_logprobs))
            yield message

    def streamed(self, event: completion_pb2.StreamCompleteResponse) -> Iterator[engine_pb2.GenerateResponse]:
        """Yield the messages for one event of a stream. The ends of choices follow its usage."""
        match event.WhichOneof("event"):
            case "started":
                (self._num_prompt_tokens,) = event.started.prompt_tokens
            case "delta":
                yield self._chunk(event.delta.choice_index, event)
            case "choice_finished":
                index = event.choice_finished.choice_index
                if event.HasField("tokens"):
                    yield self._chunk(index, event)
                self._choices[index].finished = event.choice_finished
            case "usage":
                self._num_cached_tokens = event.usage.cached_tokens
            case "completed":
                for index in range(len(self._choices)):
                    yield self._complete(index)

    def aborted(self) -> Iterator[engine_pb2.GenerateResponse]:
        """Yield the ends of all choices of an aborted request."""
        for index in range(len(self._choices)):
            yield self._complete(index)

    def _chunk(self, index: int, event: completion_pb2.StreamCompleteResponse) -> engine_pb2.GenerateResponse:
        """Return the message with an event's new tokens of a choice."""
        choice, ids = self._choices[index], event.tokens.ids
        choice.num_tokens += len(ids)
        choice.last_token_id = ids[-1] if ids else choice.last_token_id
        chunk = engine_pb2.GenerateStreamChunk(
            token_ids=ids, prompt_tokens=self._num_prompt_tokens, completion_tokens=len(ids), index=index
        )
        if event.delta.logprobs:
            chunk.output_logprobs.CopyFrom(self._output_logprobs(event.delta.logprobs))
        if event.delta.prompt_logprobs:
            chunk.input_logprobs.CopyFrom(self._input_logprobs(event.delta.prompt_logprobs))
        return engine_pb2.GenerateResponse(chunk=chunk)

    def _complete(self, index: int) -> engine_pb2.GenerateResponse:
        """Return the message that ends a choice."""
        choice = self._choices[index]
        complete = engine_pb2.GenerateComplete(
            finish_reason=_ABORTED if choice.finished is None else _FINISH_REASONS[choice.finished.finish_reason],
            prompt_tokens=self._num_prompt_tokens,
            completion_tokens=choice.num_tokens,
            cached_tokens=self._num_cached_tokens,
            index=index,
        )
        if choice.finished is not None and choice.finished.finish_reason == chat_pb2.FINISH_REASON_STOP:
            if choice.finished.HasField("stop_sequence"):
                complete.matched_stop_str = choice.finished.stop_sequence
            elif choice.last_token_id is not None and choice.last_token_id in self._params.stop_token_ids:
                complete.matched_token_id = choice.last_token_id
        return engine_pb2.GenerateResponse(complete=complete)

    def _output_logprobs(self, logprobs: Sequence[logprobs_pb2.TokenLogprob]) -> engine_pb2.OutputLogProbs:
        return engine_pb2.OutputLogProbs(
            token_logprobs=[each.logprob for each in logprobs],
            token_ids=[each.token_id for each in logprobs],
            top_logprobs=_top(logprobs) if self._params.logprobs else (),
        )

    def _input_logprobs(self, logprobs: Sequence[logprobs_pb2.TokenLogprob]) -> engine_pb2.InputLogProbs:
        """Return the log probabilities of the prompt; the first token has none."""
        return engine_pb2.InputLogProbs(
            token_logprobs=[
                engine_pb2.InputTokenLogProb(value=each.logprob if index else None)
                for index, each in enumerate(logprobs)
            ],
            token_ids=[each.token_id for each in logprobs],
            top_logprobs=_top(logprobs) if self._params.prompt_logprobs else (),
        )


def _top(logprobs: Iterable[logprobs_pb2.TokenLogprob]) -> list[engine_pb2.TopLogProbs]:
    """Return the most likely tokens at each position."""
    return [
        engine_pb2.TopLogProbs(
            values=[top.logprob for top in each.top_logprobs], token_ids=[top.token_id for top in each.top_logprobs]
        )
        for each in logprobs
    ]
