"""TokenService on a real server: tokenization, detokenization, and the length of prompts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import grpc
import pytest
import tokenizers
from sluice.v1 import chat_pb2, content_pb2, response_item_pb2, response_pb2, token_pb2, token_pb2_grpc

from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.caller import ANONYMOUS
from service.prompting.preparation import Preparation
from service.prompts.preparing.workers import WorkerLimits, Workers
from tests.engine.constraints.fakes import ADDED, END, tokenizer_of
from tests.service.contract.fakes import function, user
from tests.service.fakes import MODEL, rejection_of, running
from tests.service.preparation.fakes import preparation_of
from tests.service.prompts.fakes import CHATML

NUM_MAX = 128  # the context length of the tests' model


@asynccontextmanager
async def serving(source: str = CHATML) -> AsyncIterator[tuple[Any, FastTokenizer]]:
    """Return a stub, and the served model's tokenizer: a small one with a chat template."""
    tokenizer = tokenizer_of(*ADDED)
    preparation = preparation_of(source, tokenizer)
    async with running() as run:
        scripted = run.server.registry.visible_to(ANONYMOUS).generator(MODEL)
        run.server.registry.add(replace(scripted, preparation=preparation, tokenizer=tokenizer))
        yield token_pb2_grpc.TokenServiceStub(run.channel), tokenizer
        assert run.engine.stats().num_steps == 0


def tokenize(text: str, **fields: Any) -> token_pb2.TokenizeTextRequest:
    return token_pb2.TokenizeTextRequest(**{"model": MODEL, "text": text, **fields})


def detokenize(token_ids: list[int], **fields: Any) -> token_pb2.DetokenizeTextRequest:
    return token_pb2.DetokenizeTextRequest(**{"model": MODEL, "token_ids": token_ids, **fields})


def count_chat(*messages: content_pb2.Message, **fields: Any) -> token_pb2.CountTokensRequest:
    chat = chat_pb2.ChatRequest(**{"model": MODEL, "messages": messages, **fields})
    return token_pb2.CountTokensRequest(chat=chat)


@pytest.mark.parametrize("text", ["", "the name", "Grüße, 世界 🌍", "a<|im_end|>b", "long " * 50_000])
async def test_detokenized_tokens_equal_the_text(text: str) -> None:
    """The tokens are the tokenizer's, their bytes join to the text's, and their ids detokenize to the same text."""
    async with serving() as (stub, tokenizer):
        split = await stub.TokenizeText(tokenize(text))
        joined = await stub.DetokenizeText(detokenize(list(split.token_ids)))
    assert list(split.token_ids) == tokenizer.encode(text)
    assert b"".join(split.tokens).decode() == text
    assert (split.model, split.max_model_len) == (MODEL, NUM_MAX)
    assert (joined.model, joined.text) == (MODEL, text)


async def test_tokens_around_a_text_are_added_by_default() -> None:
    """The tokens that the tokenizer adds around a text are included and counted by default."""
    tokenizer = _with_begin(tokenizer_of(*ADDED))
    async with running() as run:
        run.server.registry.add(
            replace(run.server.registry.visible_to(ANONYMOUS).generator(MODEL), tokenizer=tokenizer)
        )
        stub = token_pb2_grpc.TokenServiceStub(run.channel)
        whole = await stub.TokenizeText(tokenize("the"))
        plain = await stub.TokenizeText(tokenize("the", add_special_tokens=False))
        counted = await stub.CountTokens(token_pb2.CountTokensRequest(text=tokenize("the")))
    assert whole.tokens[0] == b"<|im_start|>"
    assert whole.token_ids[1:] == plain.token_ids
    assert counted.num_tokens == len(whole.token_ids)


def _with_begin(tokenizer: FastTokenizer) -> FastTokenizer:
    """Return a tokenizer that adds a token before each text."""
    backend = tokenizers.Tokenizer.from_str(tokenizer.json)
    begin = "<|im_start|>"
    backend.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"{begin} $A", special_tokens=[(begin, backend.token_to_id(begin))]
    )
    return FastTokenizer(backend.to_str())


async def test_special_tokens_are_omitted_on_request() -> None:
    """Special tokens are part of the text by default."""
    async with serving() as (stub, tokenizer):
        token_ids = tokenizer.encode(f"bye{END}")
        shown = await stub.DetokenizeText(detokenize(token_ids))
        hidden = await stub.DetokenizeText(detokenize(token_ids, skip_special_tokens=True))
    assert (shown.text, hidden.text) == (f"bye{END}", "bye")


async def test_incomplete_character_is_shown_as_u_fffd() -> None:
    """A token with a part of a character is shown as U+FFFD."""
    async with serving() as (stub, tokenizer):
        first = tokenizer.encode("🌍")[:1]
        assert (await stub.DetokenizeText(detokenize(first))).text == "\ufffd"


@pytest.mark.parametrize("num_turns", [1, 20])
async def test_chat_token_count_is_of_the_rendered_template(num_turns: int) -> None:
    """The count is that of the rendered template; it may exceed the context length, and nothing is generated."""
    async with serving() as (stub, tokenizer):
        response = await stub.CountTokens(count_chat(*[user("hello you")] * num_turns))
        rendered = "<|im_start|>user\nhello you<|im_end|>\n" * num_turns + "<|im_start|>assistant\n"
    assert response.num_tokens == len(tokenizer.encode(rendered))
    assert (response.model, response.max_model_len) == (MODEL, NUM_MAX)
    assert (response.num_tokens > NUM_MAX) == (num_turns > 1)


async def test_tools_and_template_switches_change_the_token_count() -> None:
    """A chat with tools has a longer prompt, and so has one with reasoning disabled."""
    async with serving() as (stub, _):
        plain, with_tools, without_thinking = [
            (await stub.CountTokens(count_chat(user("hello"), **fields))).num_tokens
            for fields in ({}, {"tools": [function("weather")]}, {"reasoning_effort": chat_pb2.REASONING_EFFORT_NONE})
        ]
    assert with_tools > plain
    assert without_thinking > plain


async def test_counted_tokens_are_returned_on_request() -> None:
    """The tokens of a chat's whole prompt, or of a text with its added tokens, are returned only if requested."""
    async with serving() as (stub, tokenizer):
        for message in (count_chat(user("hello")), token_pb2.CountTokensRequest(text=tokenize("hello"))):
            assert not (await stub.CountTokens(message)).token_ids
            message.return_tokens = True
            counted = await stub.CountTokens(message)
            text = b"".join(counted.tokens).decode()
            assert tokenizer.encode(text) == list(counted.token_ids)
            assert counted.num_tokens == len(counted.token_ids) == len(counted.tokens)
            assert "hello" in text


async def test_response_items_are_counted_like_a_chat() -> None:
    """Items are counted as messages; an image among them is rejected with its path."""
    items = [response_item_pb2.InputItem(message={"role": content_pb2.ROLE_USER, "content": [{"text": "hello"}]})]
    message = response_pb2.CreateResponseRequest(model=MODEL, input=items, tools=[function("weather")])
    pictured = response_pb2.CreateResponseRequest(model=MODEL, input=items)
    pictured.input[0].message.content.add().image_url.url = "https://x/y.png"
    async with serving() as (stub, _):
        counted = await stub.CountTokens(token_pb2.CountTokensRequest(response=message))
        chat = await stub.CountTokens(count_chat(user("hello"), tools=[function("weather")]))
        rejection = await rejection_of(stub.CountTokens(token_pb2.CountTokensRequest(response=pictured)))
    assert counted.num_tokens == chat.num_tokens
    assert rejection.fields == [("response.input[0].message.content[1].image_url", "UNSUPPORTED_MODALITY")]


BAD: list[tuple[str, Any, tuple[str, str]]] = [
    ("TokenizeText", tokenize("x", model=""), ("model", "string.min_len")),
    ("TokenizeText", tokenize("x" * 4_194_305), ("text", "string.max_len")),
    ("DetokenizeText", detokenize([1, 2, 70_000]), ("token_ids[2]", "INVALID_FIELD")),
    ("DetokenizeText", detokenize([0] * 1_048_577), ("token_ids", "repeated.max_items")),
    ("CountTokens", token_pb2.CountTokensRequest(), ("prompt", "required")),
    ("CountTokens", token_pb2.CountTokensRequest(text=tokenize("x", model="")), ("text.model", "string.min_len")),
    ("CountTokens", count_chat(), ("chat.messages", "repeated.min_items")),
    (
        "CountTokens",
        token_pb2.CountTokensRequest(response=response_pb2.CreateResponseRequest(model=MODEL)),
        ("response.input", "repeated.min_items"),
    ),
]


@pytest.mark.parametrize(("method", "request_", "violation"), BAD, ids=[f"{m}-{v[0]}" for m, _, v in BAD])
async def test_invalid_input_is_rejected_by_field(method: str, request_: Any, violation: tuple[str, str]) -> None:
    """The error is INVALID_ARGUMENT with the full path of the field and the rule."""
    async with serving() as (stub, _):
        rejection = await rejection_of(getattr(stub, method)(request_))
    assert (rejection.code, rejection.fields) == (grpc.StatusCode.INVALID_ARGUMENT, [violation])


async def test_counting_a_chat_that_the_template_rejects_is_rejected() -> None:
    """The error names the path of the conversation in the request."""
    async with serving("{{ raise_exception('no more than one turn') }}") as (stub, _):
        rejection = await rejection_of(stub.CountTokens(count_chat(user("hello"))))
    assert (rejection.code, rejection.fields) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        [("chat.messages", "TEMPLATE_REFUSED")],
    )


async def test_counting_a_chat_of_a_model_without_chat_is_rejected() -> None:
    """The error names the path of the model in the request."""
    async with running() as run:
        served = run.server.registry.visible_to(ANONYMOUS).generator(MODEL)
        preparation = Preparation(MODEL, served.tokenizer, NUM_MAX, None, Workers(WorkerLimits()))
        run.server.registry.add(replace(served, preparation=preparation))
        rejection = await rejection_of(
            token_pb2_grpc.TokenServiceStub(run.channel).CountTokens(count_chat(user("hello")))
        )
    assert (rejection.code, rejection.fields) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        [("chat.model", "UNSUPPORTED_TASK")],
    )


@pytest.mark.parametrize(
    ("method", "request_"),
    [
        ("TokenizeText", tokenize("x", model="nobody")),
        ("DetokenizeText", detokenize([1], model="nobody")),
        ("CountTokens", token_pb2.CountTokensRequest(text=tokenize("x", model="nobody"))),
        ("CountTokens", count_chat(user("x"), model="nobody")),
    ],
)
async def test_an_unknown_model_is_not_found(method: str, request_: Any) -> None:
    """The error is NOT_FOUND with the requested name."""
    async with serving() as (stub, _):
        rejection = await rejection_of(getattr(stub, method)(request_))
    assert (rejection.code, rejection.info.reason) == (grpc.StatusCode.NOT_FOUND, "MODEL_NOT_FOUND")
    assert rejection.info.metadata["model"] == "nobody"


async def test_a_draining_server_rejects_token_calls() -> None:
    """The call is rejected with UNAVAILABLE, like every other call."""
    async with running() as run:
        await run.server.drain()
        stub = token_pb2_grpc.TokenServiceStub(run.channel)
        rejection = await rejection_of(stub.TokenizeText(tokenize("x")))
    assert (rejection.code, rejection.info.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
