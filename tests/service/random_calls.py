"""Random calls of every kind with random parameters, for load tests of the whole service."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf import json_format
from google.protobuf.message import Message
from sluice.v1 import chat_pb2, completion_pb2, embedding_pb2, response_pb2, text_generation_pb2, token_pb2

GENERATOR, ENCODER = "tiny", "tiny-encoder"
END_ID = 298  # the token that ends the tiny model's texts
MAX_LENGTH = 448  # tokens of a prompt and its answer together; almost every byte is one token

BEGINNINGS = ("", "system: be brief. ", "once upon a time the name and the arguments ")
_TOOLS = [
    {"function": {"name": "weather", "parameters": '{"type":"object","properties":{"city":{"type":"string"}}}'}},
    {"function": {"name": "time"}},
]
_TOKENS: dict[str, list[Any]] = {"tokens": [{}, {"ids": True}], "skipSpecialTokens": [False]}
_CONSTRAINTS: list[dict[str, Any]] = [
    {"regex": "[a-f]{2,9}"},
    {"choice": {"texts": ["yes", "no", "perhaps"]}},
    {"jsonObject": {}},
    {"jsonSchema": {"name": "s", "schema": '{"type":"array","items":{"enum":[1,2]},"maxItems":4}'}},
]

Draw = random.Random
Fields = dict[str, Any]


@dataclass(frozen=True)
class RandomCall:
    """A call and the behavior of its client.

    `leaves_after` is the number of events, or of milliseconds for an unstreamed answer, after which the client cancels;
    None waits for the end. `wrong` is the expected status of an invalid request.
    """

    method: str
    request: Any
    num_choices: int
    leaves_after: int | None
    timeout_s: float | None
    wrong: grpc.StatusCode | None

    @property
    def is_streamed(self) -> bool:
        return self.method.startswith("Stream")


def random_call(draw: Draw) -> RandomCall:
    """Return a random call: one in five is cancelled, one in five has a deadline, and one in ten is invalid."""
    methods, message, fields_of = draw.choices(list(_KINDS), [kind[3] for kind in _KINDS])[0][:3]
    fields = fields_of(draw)
    wrong = None
    if draw.random() < 0.1:
        wrong = _spoil(draw, fields)
    request = json_format.ParseDict(fields, message())
    leaves_after = draw.choice([0, 0, 1, 3, 10, 30]) if draw.random() < 0.2 else None
    timeout_s = draw.choice([0.0005, 0.01, 0.05, 0.2, 0.6]) if draw.random() < 0.2 else None
    num_choices = fields.get("n", 1) * len(fields.get("prompts", "1"))
    return RandomCall(draw.choice(methods), request, num_choices, leaves_after, timeout_s, wrong)


def _spoil(draw: Draw, fields: Fields) -> grpc.StatusCode:
    """Make a request invalid, and return the expected status."""
    named = next((inner for inner in fields.values() if isinstance(inner, dict) and "model" in inner), fields)
    ways: list[tuple[str, object, grpc.StatusCode]] = [
        ("model", "", grpc.StatusCode.INVALID_ARGUMENT),
        ("model", "nobody", grpc.StatusCode.NOT_FOUND),
    ]
    if "sampling" in fields:
        ways += [
            ("model", ENCODER, grpc.StatusCode.INVALID_ARGUMENT),
            ("sampling", {"logitBias": {"5000": 1}}, grpc.StatusCode.INVALID_ARGUMENT),
            ("sampling", {"topP": 7}, grpc.StatusCode.INVALID_ARGUMENT),
        ]
    name, value, status = draw.choice(ways)
    named[name] = value
    return status


def _some(draw: Draw, fields: Mapping[str, list[Any]], probability: float = 0.3) -> Fields:
    """Return a random subset of the fields, each with a random one of its values."""
    return {name: draw.choice(values) for name, values in fields.items() if draw.random() < probability}


def _text(draw: Draw, max_length: int = 30) -> str:
    return draw.choice(BEGINNINGS) + "".join(draw.choices("ab é€", k=draw.randint(1, max_length)))


def _prompt(draw: Draw, fields: Fields) -> str:
    """Return a text that fits into the context, or that is truncated if the request asks for that."""
    return _text(draw, draw.choice([30, 30, 900]) if "errorBehavior" in fields["serving"] else 30)


def _sampling(draw: Draw) -> Fields:
    return _some(
        draw,
        {
            "temperature": [0, 0.5, 1, 2],
            "topP": [0.7],
            "topK": [1, 20],
            "minP": [0.1],
            "typicalP": [0.8],
            "frequencyPenalty": [0.5],
            "presencePenalty": [-1],
            "repetitionPenalty": [1.3],
            "seed": [draw.getrandbits(64)],
            "logitBias": [{END_ID: 4}, {END_ID: -100}, {7: 3, 9: -50}],
            "watermark": [True],
        },
    )


def _stopping(draw: Draw) -> Fields:
    stopping: Fields = {"maxTokens": draw.choice([1, 2, 4, 8, 16, 32, 48])} if draw.random() < 0.97 else {}
    more = _some(draw, {"stop": [["a"], ["th", "é"]], "stopTokenIds": [[40]], "ignoreEos": [True]}, 0.2)
    more |= _some(draw, {"includeStopStrInOutput": [True]}, 0.2)
    if stopping.get("maxTokens", 0) > 2:
        more |= _some(draw, {"minTokens": [2]})
    return stopping | more


def _serving(draw: Draw) -> Fields:
    return _some(
        draw,
        {"priority": [0, 1, 7], "cacheSalt": ["mine", "yours"], "errorBehavior": ["ERROR_BEHAVIOR_TRUNCATE"]},
    )


def _generation(draw: Draw) -> Fields:
    """Return random parameters that all kinds of generation have."""
    return {"model": GENERATOR, "sampling": _sampling(draw), "serving": _serving(draw)}


def _tools(draw: Draw) -> Fields:
    choice = draw.choice([{}, {"mode": "TOOL_CHOICE_MODE_REQUIRED"}, {"functionName": "time"}])
    fields: Fields = {"tools": _TOOLS, "toolChoice": choice} if choice else {"tools": _TOOLS}
    return fields | _some(draw, {"parallelToolCalls": [False]})


def _answer(draw: Draw) -> Fields:
    """Return random parameters of a chat's answer, also for responses."""
    fields = _some(draw, {"logprobs": [{}, {"topLogprobs": 3}], "reasoningEffort": ["REASONING_EFFORT_NONE"]}, 0.2)
    form = draw.random()
    if form < 0.15:
        fields |= _tools(draw)
    elif form < 0.35:
        fields["outputConstraint"] = draw.choice(_CONSTRAINTS)
    return fields


def _message(role: str, text: str) -> Fields:
    return {"role": f"ROLE_{role}", "content": [{"text": text}]}


def _chat(draw: Draw) -> Fields:
    fields = {
        **_generation(draw),
        **_answer(draw),
        "stopping": _stopping(draw),
        "n": draw.choice([1, 1, 1, 1, 2, 3]),
        **_some(draw, {**_TOKENS, "promptLogprobs": [{}, {"topLogprobs": 2}], "addGenerationPrompt": [False]}, 0.1),
    }
    num_turns = 0
    if "tools" not in fields:
        num_turns = draw.choice([0, 0, 1, 16 if "errorBehavior" in fields["serving"] else 0])
    turns = [_message(role, _text(draw)) for _ in range(num_turns) for role in ("USER", "ASSISTANT")]
    system = [_message("SYSTEM", "Be kind.")] if draw.random() < 0.3 else []
    return {**fields, "messages": [*system, *turns, _message("USER", _text(draw))]}


def _complete(draw: Draw) -> Fields:
    fields = {**_generation(draw), "stopping": _stopping(draw), "n": draw.choice([1, 1, 1, 2])}
    prompts: list[Fields] = [{"text": _prompt(draw, fields)} for _ in range(draw.choice([1, 1, 2, 4]))]
    if draw.random() < 0.3:
        prompts.append({"tokenIds": {"ids": draw.choices(range(5, 200), k=draw.randint(1, 40))}})
    fields |= _some(draw, {"echo": [True], "suffix": [" end"], "logprobs": [{"topLogprobs": 2}]})
    fields |= _some(draw, {**_TOKENS, "outputConstraint": _CONSTRAINTS, "useRawPrompt": [False]}, 0.2)
    return {**fields, "prompts": prompts}


def _generate_text(draw: Draw) -> Fields:
    fields = {**_generation(draw), "stopping": _stopping(draw)}
    fields |= _some(draw, {"doSample": [True, False], "perfStat": [True]})
    return {**fields, "textInput": _prompt(draw, fields)}


def _respond(draw: Draw) -> Fields:
    fields = {**_generation(draw), **_answer(draw), "input": [{"message": _message("USER", _text(draw))}]}
    if draw.random() < 0.2:
        call = {"callId": "c", "name": "time", "arguments": "{}"}
        fields["input"] += [{"functionCall": call}, {"functionCallOutput": {"callId": "c", "output": "12:00"}}]
    fields["maxOutputTokens"] = draw.choice([1, 4, 16, 64])
    return fields | _some(draw, {"instructions": ["Be kind."], "metadata": [{"a": "b"}], "maxToolCalls": [1]})


def _embed(draw: Draw) -> Fields:
    serving = _serving(draw)
    max_words = 90 if "errorBehavior" in serving else 30
    inputs: list[Fields] = [
        {"text": " ".join(f"w{draw.randrange(101)}" for _ in range(draw.randint(1, max_words)))}
        for _ in range(draw.choice([1, 3, 20]))
    ]
    if draw.random() < 0.3:
        inputs.append({"tokenIds": {"ids": draw.choices(range(101), k=draw.randint(1, 30))}})
    return {"model": ENCODER, "inputs": inputs, "serving": serving}


def _tokenize(draw: Draw) -> Fields:
    return {"model": draw.choice([GENERATOR, ENCODER]), "text": _text(draw, 300)}


def _detokenize(draw: Draw) -> Fields:
    return {"model": draw.choice([GENERATOR, ENCODER]), "tokenIds": draw.choices(range(101), k=20)}


def _count(draw: Draw) -> Fields:
    return {"chat": _chat(draw)} if draw.random() < 0.7 else {"text": _tokenize(draw)}


# The methods of each kind, their request, the generator of its fields, and their relative frequency.
_KINDS: tuple[tuple[tuple[str, ...], type[Message], Callable[[Draw], Fields], float], ...] = (
    (("Chat", "StreamChat", "StreamChat"), chat_pb2.ChatRequest, _chat, 30),
    (("Complete", "StreamComplete"), completion_pb2.CompleteRequest, _complete, 20),
    (("GenerateText", "StreamGenerateText"), text_generation_pb2.GenerateTextRequest, _generate_text, 15),
    (("CreateResponse", "StreamResponse"), response_pb2.CreateResponseRequest, _respond, 15),
    (("Embed",), embedding_pb2.EmbedRequest, _embed, 12),
    (("TokenizeText",), token_pb2.TokenizeTextRequest, _tokenize, 3),
    (("DetokenizeText",), token_pb2.DetokenizeTextRequest, _detokenize, 2),
    (("CountTokens",), token_pb2.CountTokensRequest, _count, 3),
)
METHODS = frozenset(method for kind in _KINDS for method in kind[0])
