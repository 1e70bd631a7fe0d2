"""A seed gives the same tokens alone and in a random batch, over every API."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc.aio
import httpx
import pytest
from sluice.v1 import chat_pb2, chat_pb2_grpc, logprobs_pb2

from gateway.dialects.openai.chat import OpenAITranslator
from gateway.dialects.seam.http_request import HttpRequest
from tests.e2e.stack import GENERATOR, Stack
from tests.waiting import GUARD_S

NUM_REQUESTS, NUM_LEAVING, NUM_AT_ONCE = 200, 60, 64
# A cache too small for all requests, and a chunk size that splits prompts.
SIZES = {
    "BACKEND": "native",
    "NUM_BLOCKS": "72",
    "MAX_MODEL_LEN": "1024",
    "MAX_PREFILL_CHUNK": "64",
    "MAX_QUEUE_WAIT_S": "1e9",  # no request is rejected for its expected wait
}
BEGINNINGS = ("", "Be brief. ", "The house on the hill is old, and nobody lives there any more. " * 8)
WORDS = ["red", "house", "seven", "Anna", "water", "because", "gate", "slowly", "tell", "me", "why", "the", "moon"]
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def small_cache() -> Iterator[Stack]:
    """The product on the native backend, with a cache that is too small for all requests."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SIZES.items():
            patch.setenv(f"SLUICE_SERVICE_ENGINE__{name}", value)
        stack = Stack(GENERATOR)
    try:
        stack.wait_for("sluice is ready.")
        yield stack
    finally:
        assert stack.stop() == 0, stack.output


def random_body(draw: random.Random) -> dict[str, Any]:
    """Return a chat with a prompt of random length; prompts share prefixes, and long ones are prefilled in chunks."""
    words = draw.choices(WORDS, k=draw.choice([1, 5, 20, 60, 200]))
    body: dict[str, Any] = {
        "model": "sluice-demo",
        "messages": [{"role": "user", "content": draw.choice(BEGINNINGS) + " ".join(words)}],
        "seed": draw.randrange(-(2**63), 2**63),
        "temperature": 2,
        "max_tokens": draw.choice([1, 8, 24, 96]),
        "ignore_eos": draw.random() < 0.7,
    }
    optional: dict[str, Any] = {
        "top_p": 0.9,
        "top_k": draw.choice([3, 50, 1000]),
        "min_p": 0.01,
        "frequency_penalty": 0.7,
        "presence_penalty": -0.5,
        "repetition_penalty": 1.2,
        "logit_bias": {"300": 4, "301": -100},
        "stop": ["e the"],
        "n": 2,
    }
    body |= {name: value for name, value in optional.items() if draw.random() < 0.2}
    if draw.random() < 0.15:
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA}}
        body["max_tokens"] = max(body["max_tokens"], 24)  # the shortest answer must fit
    if draw.random() < 0.4:
        body |= {"logprobs": True, "top_logprobs": draw.choice([0, 5, 20])}
    return body


@dataclass
class Choice:
    """A received choice.

    `tokens` are the bytes and logprobs of its tokens, and `ids` their ids, if they were reported.
    """

    text: str = ""
    end: str = ""
    tokens: list[tuple[bytes, float]] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)

    def add_json(self, text: str | None, tokens: list[dict[str, Any]]) -> None:
        """Add a part in OpenAI's JSON."""
        self.text += text or ""
        self.tokens += [(bytes(each["bytes"]), each["logprob"]) for each in tokens]

    def add_message(self, text: str, tokens: Any) -> None:
        """Add a part in the contract's messages."""
        self.text += text
        self.tokens += [(each.bytes, each.logprob) for each in tokens]
        self.ids += [each.token_id for each in tokens]


Answer = dict[int, Choice]
Reader = Callable[["Clients", dict[str, Any]], Awaitable[Answer]]


class Clients:
    """Clients of REST and gRPC through Envoy."""

    def __init__(self, http: httpx.AsyncClient, channel: grpc.aio.Channel) -> None:
        self._http = http
        self._chats = chat_pb2_grpc.ChatServiceStub(channel)

    async def rest(self, body: dict[str, Any]) -> Answer:
        answer = await self._http.post("/v1/chat/completions", json=body)
        assert answer.status_code == 200, answer.text
        found: Answer = {}
        for each in answer.json()["choices"]:
            choice = found[each["index"]] = Choice(end=each["finish_reason"])
            choice.add_json(each["message"]["content"], (each["logprobs"] or {}).get("content") or [])
        return found

    async def sse(self, body: dict[str, Any], leave_after: int | None = None) -> Answer:
        found: Answer = {}
        request = self._http.stream("POST", "/v1/chat/completions", json=body | {"stream": True})
        async with request as answer:
            assert answer.status_code == 200, await answer.aread()
            async for line in answer.aiter_lines():
                if leave_after is not None and found and (leave_after := leave_after - 1) < 0:
                    break
                if not line.startswith("data: {"):
                    continue
                for each in json.loads(line[6:])["choices"]:
                    choice = found.setdefault(each["index"], Choice())
                    choice.add_json(each["delta"].get("content"), (each.get("logprobs") or {}).get("content") or [])
                    choice.end = each["finish_reason"] or choice.end
        return found

    async def grpc(self, body: dict[str, Any]) -> Answer:
        found: Answer = {}
        for each in (await self._chats.Chat(message_of(body), timeout=GUARD_S)).choices:
            choice = found[each.index] = Choice(end=ENDS[each.finish_reason])
            choice.add_message("".join(part.text for part in each.message.content), each.logprobs)
        return found

    async def grpc_stream(self, body: dict[str, Any], leave_after: int | None = None) -> Answer:
        found: Answer = {}
        call = self._chats.StreamChat(message_of(body), timeout=GUARD_S)
        async for event in call:
            if event.sequence_number == leave_after:
                call.cancel()
                break
            if event.HasField("content_delta"):
                delta = event.content_delta
                found.setdefault(delta.choice_index, Choice()).add_message(delta.text, delta.logprobs)
            elif event.HasField("choice_finished"):
                end = event.choice_finished
                found.setdefault(end.choice_index, Choice()).end = ENDS[end.finish_reason]
        return found


ENDS = {chat_pb2.FINISH_REASON_STOP: "stop", chat_pb2.FINISH_REASON_LENGTH: "length"}
READERS: tuple[Reader, ...] = (Clients.rest, Clients.sse, Clients.grpc, Clients.grpc_stream)


def message_of(body: dict[str, Any]) -> chat_pb2.ChatRequest:
    """Return the gateway's message for a body, always with logprobs, because they contain the token ids.

    The body has the bytes that httpx sends: a schema is a part of the prompt as it was written.
    """
    sent = httpx.Request("POST", "http://gateway", json=body)
    request = OpenAITranslator().parse(HttpRequest(sent.content)).request
    if not request.HasField("logprobs"):
        request.logprobs.CopyFrom(logprobs_pb2.LogprobsOptions())
    return request


@asynccontextmanager
async def clients_of(stack: Stack) -> AsyncIterator[Clients]:
    limits = httpx.Limits(max_connections=NUM_AT_ONCE)
    async with (
        httpx.AsyncClient(base_url=stack.url, timeout=GUARD_S, limits=limits) as http,
        grpc.aio.insecure_channel(f"127.0.0.1:{stack.ports['envoy']}") as channel,
    ):
        yield Clients(http, channel)


def assert_same(body: dict[str, Any], answer: Answer, alone: Answer) -> None:
    assert answer.keys() == alone.keys() == set(range(body.get("n", 1)))
    for index, choice in answer.items():
        expected = alone[index]
        assert (choice.text, choice.end) == (expected.text, expected.end), body
        assert choice.ids in (expected.ids, []), body
        assert choice.tokens in (expected.tokens, []), body


@pytest.mark.long
async def test_200_seeds_give_the_same_tokens_alone_and_in_a_batch(small_cache: Stack) -> None:
    """Tokens at temperature 2 do not depend on the batch, the API, streaming, preemptions or aborted requests."""
    draw = random.Random(11)
    bodies = [random_body(draw) for _ in range(NUM_REQUESTS)]
    async with clients_of(small_cache) as clients:
        alone = [await clients.grpc(body) for body in bodies]
        slots = asyncio.Semaphore(NUM_AT_ONCE)

        async def ask(index: int, read: Reader) -> None:
            async with slots:
                assert_same(bodies[index], await read(clients, bodies[index]), alone[index])

        async def leave(body: dict[str, Any], read: Any, after: int) -> None:
            async with slots:
                await read(clients, body | {"max_tokens": 200, "ignore_eos": True}, after)

        work: list[Any] = [ask(index, draw.choice(READERS)) for index in range(NUM_REQUESTS)]
        for _ in range(NUM_LEAVING):
            read = draw.choice((Clients.sse, Clients.grpc_stream))
            work.append(leave(random_body(draw), read, draw.randrange(1, 20)))
        draw.shuffle(work)
        await asyncio.gather(*work)
    assert small_cache.metric("sluice_engine_preemptions_total") > 0
    assert small_cache.metric("sluice_engine_prefix_hit_tokens_total") > 0
    small_cache.until_idle()
