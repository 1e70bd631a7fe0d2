"""Random requests of each kind over gRPC, whose streams are cut anywhere, and the fold of the parts."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import grpc.aio
from sluice.v1 import (
    chat_pb2,
    chat_pb2_grpc,
    completion_pb2,
    completion_pb2_grpc,
    content_pb2,
    logprobs_pb2,
    prompt_pb2,
    response_item_pb2,
    response_pb2,
    response_pb2_grpc,
    sampling_pb2,
    text_generation_pb2,
    text_generation_pb2_grpc,
    tool_pb2,
)

from service.answering.kind import CHAT, COMPLETION, TEXT_GENERATION
from service.contract.responses.response_renderer import ResponseFold
from tests.service.contract.fakes import user
from tests.waiting import GUARD_S

MODEL = "sluice-demo"
OPENS_CALL = 2042  # the model's token <tool_call>
WORDS = ["red", "house", "seven", "Anna", "water", "because", "gate", "slowly", "tell", "me", "why", "the", "moon"]
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class CutKind:
    """One kind of stream: how to make a random request, call the method, and fold the events."""

    name: str
    ask: Callable[[random.Random, int], Any]
    stub: Callable[[grpc.aio.Channel], Any]
    fold: Callable[[], Any]

    async def read(self, channel: grpc.aio.Channel, request: Any) -> AsyncIterator[Any]:
        async for event in self.stub(channel)(request, timeout=GUARD_S):
            yield event

    def whole(self, events: Iterable[Any], *, cached: bool = True) -> Any:
        """Return the answer without its times and, unless `cached`, without the number of cached tokens."""
        fold = self.fold()
        for event in events:
            fold.add(event)
        answer = fold.response
        if isinstance(answer, text_generation_pb2.GenerateTextResponse):
            answer.ClearField("timings")
        if isinstance(answer, response_pb2.CreateResponseResponse):
            answer.response.ClearField("completed")
        if not cached:
            usage = answer.response.usage if self.name == "response" else answer.usage
            usage.ClearField("cached_tokens")
        return answer


def resumed(request: Any, events: Sequence[Any], *, replay: bool = False) -> Any:
    """Return the request with `resume` set to continue after the last event that has a position."""
    again = type(request)()
    again.CopyFrom(request)
    last = [event for event in events if event.position][-1]
    again.resume.stream, again.resume.position = events[0].stream, last.position
    again.resume.sequence_number, again.resume.replay = last.sequence_number, replay
    return again


def _sampling(draw: random.Random) -> sampling_pb2.SamplingParams:
    sampling = sampling_pb2.SamplingParams(temperature=draw.choice([0, 1, 1.5]))
    if draw.random() < 0.5:
        sampling.seed = draw.randrange(2**64)
    optional = {
        "top_p": 0.9,
        "frequency_penalty": 0.7,
        "presence_penalty": -0.5,
        "repetition_penalty": 1.2,
        "watermark": True,
    }
    for name, value in optional.items():
        if draw.random() < 0.2:
            setattr(sampling, name, value)
    if draw.random() < 0.2:
        sampling.logit_bias.update({300: 4, 301: -100, 7: 1})
    return sampling


def _text(draw: random.Random) -> str:
    return " ".join(draw.choices(WORDS, k=draw.choice([1, 5, 20, 60])))


def _stopping(draw: random.Random, num_tokens: int) -> sampling_pb2.StopParams:
    stop = ["e the", "ing to", "qq"] if draw.random() < 0.4 else []
    return sampling_pb2.StopParams(max_tokens=num_tokens, stop=stop, ignore_eos=draw.random() < 0.5)


def _logprobs(draw: random.Random) -> logprobs_pb2.LogprobsOptions | None:
    return logprobs_pb2.LogprobsOptions(top_logprobs=draw.choice([0, 3])) if draw.random() < 0.4 else None


def _tool() -> tool_pb2.Tool:
    return tool_pb2.Tool(function=tool_pb2.FunctionDefinition(name="weather", parameters=json.dumps(SCHEMA)))


def _chat(draw: random.Random, num_tokens: int) -> chat_pb2.ChatRequest:
    request = chat_pb2.ChatRequest(
        model=MODEL,
        messages=[user(_text(draw))],
        sampling=_sampling(draw),
        stopping=_stopping(draw, num_tokens),
        n=draw.choice([1, 1, 1, 3]),
        logprobs=_logprobs(draw),
        reasoning_effort=draw.choice([chat_pb2.REASONING_EFFORT_UNSPECIFIED, chat_pb2.REASONING_EFFORT_HIGH]),
    )
    if draw.random() < 0.4:
        request.tools.append(_tool())
        if draw.random() < 0.5:
            request.sampling.logit_bias.update({OPENS_CALL: 4})
        else:
            request.tool_choice.mode = tool_pb2.TOOL_CHOICE_MODE_REQUIRED
        request.stopping.ClearField("ignore_eos")
    elif draw.random() < 0.3:
        request.output_constraint.json_schema.name = "s"
        request.output_constraint.json_schema.schema = json.dumps(SCHEMA)
        request.stopping.ClearField("ignore_eos")
    return request


def _completion(draw: random.Random, num_tokens: int) -> completion_pb2.CompleteRequest:
    return completion_pb2.CompleteRequest(
        model=MODEL,
        prompts=[prompt_pb2.Prompt(text=_text(draw)) for _ in range(draw.choice([1, 1, 3]))],
        sampling=_sampling(draw),
        stopping=_stopping(draw, num_tokens),
        n=draw.choice([1, 2]),
        logprobs=_logprobs(draw),
        suffix=draw.choice(["", " (end)"]),
        echo=draw.random() < 0.3,
    )


def _response(draw: random.Random, num_tokens: int) -> response_pb2.CreateResponseRequest:
    request = response_pb2.CreateResponseRequest(
        model=MODEL,
        sampling=_sampling(draw),
        max_output_tokens=num_tokens,
        logprobs=_logprobs(draw),
        metadata={"a": "b"},
    )
    message = response_item_pb2.InputMessage(
        role=content_pb2.ROLE_USER, content=[content_pb2.ContentPart(text=_text(draw))]
    )
    request.input.append(response_item_pb2.InputItem(message=message))
    if draw.random() < 0.5:
        request.tools.append(_tool())
        request.tool_choice.mode = tool_pb2.TOOL_CHOICE_MODE_REQUIRED
    return request


def _generation(draw: random.Random, num_tokens: int) -> text_generation_pb2.GenerateTextRequest:
    return text_generation_pb2.GenerateTextRequest(
        model=MODEL,
        text_input=_text(draw),
        do_sample=draw.random() < 0.7,
        sampling=_sampling(draw),
        stopping=_stopping(draw, num_tokens),
    )


class ResponseDeltas(ResponseFold):
    """A fold that also checks that each "done" event repeats its deltas."""

    def __init__(self) -> None:
        super().__init__()
        self._texts: dict[str, str] = {}

    def add(self, message: Any) -> None:
        super().add(message)
        kind = message.WhichOneof("event")
        if kind.endswith("_delta"):
            event = getattr(message, kind)
            self._texts[event.item_id] = self._texts.get(event.item_id, "") + event.delta
        elif kind in {"output_text_done", "reasoning_text_done"}:
            assert getattr(message, kind).text == self._texts.get(message_id(message), "")
        elif kind == "function_call_arguments_done":
            assert message.function_call_arguments_done.arguments == self._texts.get(message_id(message), "")


def message_id(message: Any) -> str:
    """Return the id of the item that an event belongs to."""
    item_id: str = getattr(message, message.WhichOneof("event")).item_id
    return item_id


KINDS = (
    CutKind("chat", _chat, lambda channel: chat_pb2_grpc.ChatServiceStub(channel).StreamChat, CHAT.fold),
    CutKind(
        "completion",
        _completion,
        lambda channel: completion_pb2_grpc.CompletionServiceStub(channel).StreamComplete,
        COMPLETION.fold,
    ),
    CutKind(
        "response",
        _response,
        lambda channel: response_pb2_grpc.ResponseServiceStub(channel).StreamResponse,
        ResponseDeltas,
    ),
    CutKind(
        "text_generation",
        _generation,
        lambda channel: text_generation_pb2_grpc.TextGenerationServiceStub(channel).StreamGenerateText,
        TEXT_GENERATION.fold,
    ),
)
