"""Completions of the OpenAI style: conversion of the body to the contract's message, and of the answer to JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from google.protobuf.timestamp_pb2 import Timestamp
from sluice.v1 import chat_pb2, completion_pb2, logprobs_pb2, usage_pb2

from gateway.dialects.openai.completion import OpenAICompletionEncoder, OpenAICompletionTranslator
from gateway.dialects.openai_family.completions.encoder import CompletionEncoder
from gateway.dialects.openai_family.parameters.stream_options import StreamedUsage
from gateway.dialects.seam.failure import Failure
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.translator import ParsedRequest

Event = completion_pb2.StreamCompleteResponse


def parse(**fields: Any) -> ParsedRequest[completion_pb2.CompleteRequest]:
    """Return the call for a valid body changed by `fields`."""
    return OpenAICompletionTranslator().parse(
        HttpRequest(json.dumps({"model": "m", "prompt": "hi", **fields}).encode())
    )


def test_request_with_every_field() -> None:
    """Every field that has an effect is in the request."""
    call = parse(
        prompt=["a", "b"], echo=True, suffix="!", logprobs=3, n=2, best_of=2, stream=True,
        stream_options={"include_usage": True}, prompt_cache_key="k", user="u",
        temperature=0.5, top_p=0.75, top_k=20, min_p=0.125, typical_p=0.875, frequency_penalty=-0.5,
        presence_penalty=1, repetition_penalty=1.25, watermark=True, seed=-1, logit_bias={"15": -100},
        max_tokens=100, min_tokens=2, stop="END", stop_token_ids=[3], ignore_eos=False, priority=-5, cache_salt="t",
        response_format={"type": "json_object"},
    )  # fmt: skip
    expected = {
        "model": "m",
        "prompts": [{"text": "a"}, {"text": "b"}],
        "sampling": {
            "temperature": 0.5, "topP": 0.75, "topK": 20, "minP": 0.125, "typicalP": 0.875, "frequencyPenalty": -0.5,
            "presencePenalty": 1, "repetitionPenalty": 1.25, "watermark": True, "seed": str(2**64 - 1),
            "logitBias": {"15": -100},
        },
        "stopping": {"maxTokens": 100, "minTokens": 2, "stop": ["END"], "stopTokenIds": [3], "ignoreEos": False},
        "n": 2, "logprobs": {"topLogprobs": 3}, "outputConstraint": {"jsonObject": {}}, "suffix": "!", "echo": True,
        "serving": {"priority": -5, "cacheSalt": "t"},
    }  # fmt: skip
    assert call.request == ParseDict(expected, completion_pb2.CompleteRequest())
    assert (call.stream, call.affinity) == (True, "k")


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("", [{"text": ""}]),
        ("a", [{"text": "a"}]),
        (["a", "b"], [{"text": "a"}, {"text": "b"}]),
        ([1, 2], [{"tokenIds": {"ids": [1, 2]}}]),
        ([[1, 2], [3]], [{"tokenIds": {"ids": [1, 2]}}, {"tokenIds": {"ids": [3]}}]),
        ([], []),
    ],
)
def test_each_of_four_prompt_types_is_accepted(prompt: Any, expected: list[dict[str, Any]]) -> None:
    """A prompt is a text, several texts, a list of token ids, or several lists."""
    assert parse(prompt=prompt).request == ParseDict(
        {"model": "m", "prompts": expected}, completion_pb2.CompleteRequest()
    )


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"prompt": ["a", 1]}, "prompt.1", "must be a string"),
        ({"prompt": [1, "a"]}, "prompt.1", "must be an integer"),
        ({"prompt": [[1], 2]}, "prompt.1", "must be a list"),
        ({"prompt": [[1], ["a"]]}, "prompt.1.0", "must be an integer, not a string"),
        ({"prompt": [1, -1]}, "prompt.1", "from 0 to 4294967295"),
        ({"prompt": [[1], [2, 2**32]]}, "prompt.1.1", "from 0 to 4294967295"),
        ({"prompt": ["a"] * 257}, "prompt", "at most 256"),
        ({"prompt": None}, "prompt", "must be"),
        ({"best_of": 2}, "best_of", "must equal n (1)"),
        ({"best_of": 1, "n": 2}, "best_of", "must equal n (2)"),
        ({"logprobs": -1}, "logprobs", "from 0 to 20"),
        ({"logprobs": True}, "logprobs", "must be an integer, not a boolean"),
        ({"priority": 2**31}, "priority", "from -100 to 100"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "only allowed with stream: true"),
        ({"messages": []}, "messages", "unknown field"),
    ],
)
def test_bad_field_is_named(fields: dict[str, Any], field: str, words: str) -> None:
    """A value outside the contract's types is rejected with the caller's field name and the rule."""
    with pytest.raises(Failure) as caught:
        parse(**fields)
    assert caught.value.status == 400
    assert caught.value.field == field
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("fields", "path", "name"),
    [
        ({}, "prompts[0].text", "prompt"),
        ({"prompt": ["a", "b"]}, "prompts[1]", "prompt.1"),
        ({"prompt": ["a", "b"]}, "prompts[1].text", "prompt.1"),
        ({"prompt": ["a", "b"]}, "prompts", "prompt"),
        ({"prompt": [5, 6]}, "prompts[0].token_ids.ids[1]", "prompt.1"),
        ({"prompt": [5, 6]}, "prompts[0].token_ids.ids", "prompt"),
        ({"prompt": [[5], [6]]}, "prompts[1].token_ids.ids[0]", "prompt.1.0"),
        ({"prompt": [[5], []]}, "prompts[1].token_ids.ids", "prompt.1"),
        ({"logprobs": 3}, "logprobs.top_logprobs", "logprobs"),
        ({"stop": "x"}, "stopping.stop[0]", "stop"),
        ({"stop": ["x"]}, "stopping.stop[0]", "stop.0"),
        ({}, "sampling.temperature", "temperature"),
        ({}, "serving.cache_salt", "cache_salt"),
        ({}, "output_constraint.json_schema.schema", "response_format.json_schema.schema"),
        ({}, "suffix", "suffix"),
    ],
)
def test_contract_path_is_mapped_to_the_callers_field(fields: dict[str, Any], path: str, name: str) -> None:
    """A violation is reported with the caller's field names."""
    assert parse(**fields).caller_name(path) == name


def test_max_tokens_0_with_echo_returns_the_prompt() -> None:
    """`max_tokens: 0` with `echo` returns the prompt only; without `echo` the contract rejects it."""
    request = parse(echo=True, max_tokens=0, min_tokens=0, logprobs=1).request
    assert (request.prompt_only, request.echo, request.HasField("stopping")) == (True, True, False)
    for plain in (parse(max_tokens=0).request, parse(echo=True, max_tokens=1).request):
        assert not plain.HasField("prompt_only")
        assert plain.stopping.HasField("max_tokens")


def token(text: bytes, logprob: float, *tops: logprobs_pb2.TokenLogprob) -> logprobs_pb2.TokenLogprob:
    """Return a token with its probability."""
    return logprobs_pb2.TokenLogprob(
        token=text.decode(errors="replace"), bytes=text, logprob=logprob, top_logprobs=tops
    )


EURO = "€".encode()
PROMPT = [token(b"<s>", 0), token(b"A", -1, token(b"B", -0.5))]
GENERATED = [token(EURO[:1], -2), token(EURO[1:], -0.25), token(b"<c>", -1), token(b"c", float("-inf"))]
LOGPROBS = {
    "tokens": ["<s>", "A", "bytes:\\xe2", "bytes:\\x82\\xac", "<c>", "c"],
    "token_logprobs": [None, -1.0, -2.0, -0.25, -1.0, -9999.0],
    "top_logprobs": [
        None,
        {"B": -0.5, "A": -1.0},
        {"bytes:\\xe2": -2.0},
        {"bytes:\\x82\\xac": -0.25},
        {"<c>": -1.0},
        {"c": -9999.0},
    ],
    "text_offset": [0, 0, 1, 1, 2, 2],
}


def test_unstreamed_answer() -> None:
    """A whole answer is a text_completion; logprobs are parallel lists that begin with the prompt's."""
    choice = completion_pb2.CompletionChoice(
        index=1, prompt_index=1, text="A€c", finish_reason=chat_pb2.FINISH_REASON_STOP,
        prompt_logprobs=PROMPT, logprobs=GENERATED,
    )  # fmt: skip
    plain = completion_pb2.CompletionChoice(text="x", finish_reason=chat_pb2.FINISH_REASON_LENGTH)
    answer = completion_pb2.CompleteResponse(
        id="7", created=Timestamp(seconds=5), model="m", system_fingerprint="fp", choices=[plain, choice],
        usage=usage_pb2.Usage(prompt_tokens=2, completion_tokens=3),
    )  # fmt: skip
    body = json.loads(OpenAICompletionEncoder(has_logprobs=True).whole(answer))
    usage = body.pop("usage")
    assert body == {
        "id": "cmpl-7",
        "object": "text_completion",
        "created": 5,
        "model": "m",
        "system_fingerprint": "fp",
        "choices": [
            {"index": 0, "text": "x", "logprobs": {name: [] for name in LOGPROBS}, "finish_reason": "length"},
            {"index": 1, "text": "A€c", "logprobs": LOGPROBS, "finish_reason": "stop"},
        ],
    }
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (2, 3, 5)
    unasked = json.loads(OpenAICompletionEncoder().whole(answer))
    assert [each["logprobs"] for each in unasked["choices"]] == [None, None]


def events(n: int = 1) -> list[Event]:
    """Return a stream of two prompts with `n` choices each."""
    delta, end = completion_pb2.CompletionDelta, chat_pb2.ChoiceFinished
    return [
        Event(started=completion_pb2.CompletionStarted(id="7", created=Timestamp(seconds=5), model="m", n=n)),
        Event(delta=delta(choice_index=0, text="A", prompt_logprobs=PROMPT)),
        Event(delta=delta(choice_index=n, text="b")),
        Event(delta=delta(choice_index=0, text="", logprobs=GENERATED[:1])),
        Event(delta=delta(choice_index=0, text="€c", logprobs=GENERATED[1:])),
        Event(choice_finished=end(choice_index=0, finish_reason=chat_pb2.FINISH_REASON_STOP)),
        Event(choice_finished=end(choice_index=n, finish_reason=chat_pb2.FINISH_REASON_LENGTH)),
        Event(usage=usage_pb2.Usage(prompt_tokens=2, completion_tokens=3)),
        Event(completed=completion_pb2.CompletionCompleted()),
    ]


def chunks(encoder: CompletionEncoder, stream: list[Event]) -> list[dict[str, Any]]:
    """Return the JSON of each SSE event except the last, which must be [DONE]."""
    *bodies, done, nothing = b"".join(encoder.chunk(event) for event in stream).decode().split("\n\n")
    assert (done, nothing) == ("data: [DONE]", "")
    return [json.loads(body.removeprefix("data: ")) for body in bodies]


def test_stream_chunks_add_up_to_the_unstreamed_answer() -> None:
    """A choice's chunks have its text and logprobs in pieces, and a separate last chunk has the finish reason."""
    streamed_chunks = chunks(OpenAICompletionEncoder(has_logprobs=True), events())
    head = {"id": "cmpl-7", "object": "text_completion", "created": 5, "model": "m", "system_fingerprint": ""}
    assert all({name: chunk[name] for name in head} == head for chunk in streamed_chunks)
    assert all("usage" not in chunk for chunk in streamed_chunks)
    choices = [choice for chunk in streamed_chunks for choice in chunk["choices"] if choice["index"] == 0]
    assert "".join(choice["text"] for choice in choices) == "A€c"
    pieces = [choice["logprobs"] for choice in choices if choice["logprobs"] is not None]
    assert {name: [value for piece in pieces for value in piece[name]] for name in LOGPROBS} == LOGPROBS
    assert [choice["finish_reason"] for choice in choices] == [None, None, None, "stop"]


def test_usage_is_in_the_last_chunk_with_include_usage() -> None:
    """With include_usage the last chunk has the usage and no choice, and the others have null."""
    *others, last = chunks(OpenAICompletionEncoder(usage=StreamedUsage.LAST), events())
    assert all(chunk["usage"] is None for chunk in others)
    assert (last["choices"], last["usage"]["total_tokens"]) == ([], 5)


@pytest.mark.parametrize(("by_prompt", "indices"), [(False, {0, 3}), (True, {0, 1})])
def test_index_is_the_choices_or_the_prompts_by_dialect(*, by_prompt: bool, indices: set[int]) -> None:
    """`index` is the choice's, or the prompt's in dialects that define it so."""
    streamed_chunks = chunks(OpenAICompletionEncoder(index_by_prompt=by_prompt), events(n=3))
    assert {choice["index"] for chunk in streamed_chunks for choice in chunk["choices"]} == indices


@pytest.mark.parametrize("by_prompt", [False, True])
def test_choice_index_distinguishes_choices_of_one_prompt(*, by_prompt: bool) -> None:
    """If `index` is the prompt's, `choice_index` is the index among all choices, whole and streamed."""
    streamed_chunks = chunks(OpenAICompletionEncoder(index_by_prompt=by_prompt), events(n=3))
    response = completion_pb2.CompleteResponse()
    for place in (0, 3):
        response.choices.add(index=place, prompt_index=place // 3, finish_reason=chat_pb2.FINISH_REASON_STOP)
    whole = json.loads(OpenAICompletionEncoder(index_by_prompt=by_prompt).whole(response))
    for choices in (whole["choices"], [choice for chunk in streamed_chunks for choice in chunk["choices"]]):
        found = {(choice["index"], choice.get("choice_index")) for choice in choices}
        assert found == ({(0, 0), (1, 3)} if by_prompt else {(0, None), (3, None)})
