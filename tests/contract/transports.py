"""Chats over each transport of the product, with a common form of request and answer.

A transport takes the fields of an OpenAI-style chat body; the one over gRPC converts them to a ChatRequest without the
gateway's code. Each returns an `Answer`; a stream is accumulated.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Protocol

import grpc
import httpx
from sluice.v1 import chat_pb2, chat_pb2_grpc, content_pb2, logprobs_pb2, sampling_pb2, tool_pb2, usage_pb2

from tests.waiting import GUARD_S

Fields = dict[str, Any]


@dataclass(frozen=True)
class Token:
    """A token's bytes and logprob, and its candidates."""

    data: bytes
    logprob: float
    top: tuple[Token, ...] = ()


@dataclass
class Choice:
    """One choice, accumulated from its pieces."""

    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)  # (name, arguments)
    tokens: list[Token] = field(default_factory=list)
    finish: str = ""


@dataclass
class Answer:
    """An answer's choices by index, and its usage."""

    choices: dict[int, Choice] = field(default_factory=dict)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    cached_tokens: int = 0

    @property
    def only(self) -> Choice:
        """Return the only choice."""
        assert list(self.choices) == [0]
        return self.choices[0]


class Transport(Protocol):
    """A protocol over which a chat is requested: REST, its event stream, or gRPC."""

    def ask(self, **fields: Any) -> Answer:
        """Return the answer to a chat body with these fields and the demo model's name."""


@dataclass(frozen=True)
class WholeRest:
    """`POST /v1/chat/completions`."""

    client: httpx.Client

    def ask(self, **fields: Any) -> Answer:
        response = self.client.post("/v1/chat/completions", json=_body(fields))
        assert response.status_code == 200, response.text
        body = response.json()
        answer = _rest_answer(body["usage"])
        for choice in body["choices"]:
            message, logprobs = choice["message"], choice["logprobs"] or {"content": []}
            answer.choices[choice["index"]] = Choice(
                text=message["content"] or "",
                reasoning=message.get("reasoning_content", ""),
                calls=[_rest_call(call) for call in message.get("tool_calls", ())],
                tokens=[_rest_token(token) for token in logprobs["content"]],
                finish=choice["finish_reason"],
            )
        return answer


@dataclass(frozen=True)
class StreamedRest:
    """The same path with `stream: true`, which also checks the form of the stream."""

    client: httpx.Client

    def ask(self, **fields: Any) -> Answer:
        body = _body(fields) | {"stream": True, "stream_options": {"include_usage": True}}
        response = self.client.post("/v1/chat/completions", json=body)
        assert response.status_code == 200, response.text
        events = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: ")]
        assert events.pop() == "[DONE]"
        *chunks, last = map(json.loads, events)
        assert last["choices"] == []
        answer = _rest_answer(last["usage"])
        for chunk in chunks:
            (part,) = chunk["choices"]
            is_first = part["index"] not in answer.choices
            assert ("role" in part["delta"]) == is_first
            choice = answer.choices.setdefault(part["index"], Choice())
            assert not choice.finish
            choice.finish = part["finish_reason"] or ""
            assert not (choice.finish and part["delta"])
            _add_delta(choice, part)
        return answer


@dataclass(frozen=True)
class StreamedGrpc:
    """`ChatService.StreamChat`."""

    channel: grpc.Channel

    def ask(self, **fields: Any) -> Answer:
        events = chat_pb2_grpc.ChatServiceStub(self.channel).StreamChat(_request(fields), timeout=GUARD_S)
        answer = Answer()
        for event in events:
            kind = event.WhichOneof("event")
            if kind == "usage":
                answer.__dict__ |= {name: getattr(event.usage, name) for name in _names(usage_pb2.Usage)}
            elif kind not in {"started", "completed"}:
                delta = getattr(event, kind)
                _add_event(answer.choices.setdefault(delta.choice_index, Choice()), kind, delta)
        return answer


def _body(fields: Fields) -> Fields:
    return {"model": "sluice-demo", "messages": [{"role": "user", "content": "Hello! Who are you?"}]} | fields


def _rest_answer(usage: Any) -> Answer:
    """Return an answer with this usage and no choices yet."""
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["reasoning_tokens"] == usage["completion_tokens_details"]["reasoning_tokens"]
    return Answer(
        prompt_tokens=usage["prompt_tokens"],
        completion_tokens=usage["completion_tokens"],
        reasoning_tokens=usage["reasoning_tokens"],
        cached_tokens=usage["prompt_tokens_details"]["cached_tokens"],
    )


def _rest_call(call: Any) -> tuple[str, str]:
    return call["function"]["name"], call["function"]["arguments"]


def _rest_token(token: Any) -> Token:
    top = tuple(_rest_token(each) for each in token.get("top_logprobs", ()))
    return Token(bytes(token["bytes"]), token["logprob"], top)


def _add_delta(choice: Choice, part: Any) -> None:
    delta = part["delta"]
    choice.text += delta.get("content") or ""
    choice.reasoning += delta.get("reasoning_content", "")
    choice.tokens += [_rest_token(token) for token in (part["logprobs"] or {"content": []})["content"]]
    for call in delta.get("tool_calls", ()):
        _add_call(choice, call["index"], call["function"].get("name"), call["function"]["arguments"])


def _add_event(choice: Choice, kind: str, delta: Any) -> None:
    if kind == "content_delta":
        choice.text += delta.text
        choice.tokens += [_grpc_token(token) for token in delta.logprobs]
    elif kind == "reasoning_delta":
        choice.reasoning += delta.text
    elif kind == "tool_call_delta":
        name = delta.name if delta.HasField("name") else None
        _add_call(choice, delta.tool_call_index, name, delta.arguments)
    else:
        choice.finish = chat_pb2.FinishReason.Name(delta.finish_reason).removeprefix("FINISH_REASON_").lower()


def _add_call(choice: Choice, index: int, name: str | None, arguments: str) -> None:
    if name is not None:
        assert index == len(choice.calls)
        choice.calls.append((name, ""))
    assert index == len(choice.calls) - 1
    choice.calls[-1] = choice.calls[-1][0], choice.calls[-1][1] + arguments


def _grpc_token(token: logprobs_pb2.TokenLogprob) -> Token:
    return Token(token.bytes, token.logprob, tuple(map(_grpc_token, token.top_logprobs)))


def _request(fields: Fields) -> chat_pb2.ChatRequest:
    left = _body(fields)
    request = chat_pb2.ChatRequest(
        model=left.pop("model"),
        messages=[_message(message) for message in left.pop("messages")],
        tools=[_tool(tool["function"]) for tool in left.pop("tools", ())],
        n=left.pop("n", None),
        parallel_tool_calls=left.pop("parallel_tool_calls", None),
        reasoning_effort=f"REASONING_EFFORT_{left.pop('reasoning_effort', 'unspecified').upper()}",
    )
    if left.pop("logprobs", False):
        request.logprobs.CopyFrom(logprobs_pb2.LogprobsOptions(top_logprobs=left.pop("top_logprobs", None)))
    if "response_format" in left:
        request.output_constraint.CopyFrom(_constraint(left.pop("response_format")))
    choice = left.pop("tool_choice", None)
    if isinstance(choice, str):
        request.tool_choice.CopyFrom(tool_pb2.ToolChoice(mode=f"TOOL_CHOICE_MODE_{choice.upper()}"))
    elif choice is not None:
        request.tool_choice.function_name = choice["function"]["name"]
    left["max_tokens"] = left.pop("max_completion_tokens", left.get("max_tokens"))
    left["logit_bias"] = {int(token_id): bias for token_id, bias in left.get("logit_bias", {}).items()}
    sampling = {name: left.pop(name) for name in _names(sampling_pb2.SamplingParams) & left.keys()}
    stopping = {name: left.pop(name) for name in _names(sampling_pb2.StopParams) & left.keys()}
    assert not left, f"no gRPC field for {left}"
    request.sampling.CopyFrom(sampling_pb2.SamplingParams(**sampling))
    request.stopping.CopyFrom(sampling_pb2.StopParams(**stopping))
    return request


def _names(message: Any) -> set[str]:
    return {each.name for each in message.DESCRIPTOR.fields}


def _message(message: Any) -> content_pb2.Message:
    role = {"developer": "system"}.get(message["role"], message["role"])
    content = message.get("content") or []
    texts = [content] if isinstance(content, str) else [part["text"] for part in content]
    calls = [
        tool_pb2.ToolCall(id=call["id"], function=tool_pb2.FunctionCall(**call["function"]))
        for call in message.get("tool_calls", ())
    ]
    return content_pb2.Message(
        role=f"ROLE_{role.upper()}",
        content=[content_pb2.ContentPart(text=text) for text in texts],
        tool_calls=calls,
        tool_call_id=message.get("tool_call_id"),
        reasoning=message.get("reasoning_content"),
    )


def _tool(function: Any) -> tool_pb2.Tool:
    given = function | {"parameters": json.dumps(function["parameters"])}
    return tool_pb2.Tool(function=tool_pb2.FunctionDefinition(**given))


def _constraint(wanted: Any) -> sampling_pb2.OutputConstraint:
    if wanted["type"] == "json_object":
        return sampling_pb2.OutputConstraint(json_object=sampling_pb2.JsonObject())
    given = wanted["json_schema"] | {"schema": json.dumps(wanted["json_schema"]["schema"])}
    return sampling_pb2.OutputConstraint(json_schema=sampling_pb2.JsonSchema(**given))
