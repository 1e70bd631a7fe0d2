"""TokenService works on threads of its own: long texts delay neither the event loop nor answers."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import grpc
from sluice.v1 import chat_pb2, token_pb2, token_pb2_grpc

from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.caller import ANONYMOUS
from service.prompts.preparing.workers import Workers
from tests.engine.constraints.fakes import ADDED, tokenizer_of
from tests.service.contract.fakes import user
from tests.service.fakes import MODEL, rejection_of, request, running
from tests.service.preparation.fakes import chat, preparation_of
from tests.waiting import GUARD_S

TEXT = token_pb2.TokenizeTextRequest(model=MODEL, text="hello")


class Watched(FastTokenizer):
    """A tokenizer that records the threads on which its tokens' bytes are looked up."""

    def __init__(self, text: str) -> None:
        self.threads: set[threading.Thread] = set()
        super().__init__(text)

    def token_bytes(self, token_id: int) -> bytes:
        self.threads.add(threading.current_thread())
        return super().token_bytes(token_id)


async def test_bytes_of_tokens_are_looked_up_off_the_event_loop() -> None:
    """The bytes of tokens are looked up on the tokenizer threads, so that other calls continue."""
    tokenizer = Watched(tokenizer_of(*ADDED).json)
    async with running() as run:
        run.server.registry.add(
            replace(run.server.registry.visible_to(ANONYMOUS).generator(MODEL), tokenizer=tokenizer)
        )
        stub = token_pb2_grpc.TokenServiceStub(run.channel)
        tokenizer.threads.clear()
        counted = await stub.CountTokens(token_pb2.CountTokensRequest(text=TEXT, return_tokens=True))
    assert b"".join(counted.tokens) == b"hello"
    assert tokenizer.threads
    assert threading.current_thread() not in tokenizer.threads


async def occupied(readers: Workers, release: threading.Event) -> list[asyncio.Task[bool]]:
    """Occupy all threads until the event, and then let no other text wait long for one."""
    readers.limits = replace(readers.limits, max_work_s=GUARD_S)
    has_begun = threading.Barrier(readers.limits.num_threads + 1)

    def work() -> bool:
        has_begun.wait(GUARD_S)
        return release.wait(GUARD_S)

    texts = [asyncio.create_task(readers.read(work, None, "text")) for _ in range(readers.limits.num_threads)]
    await asyncio.to_thread(has_begun.wait, GUARD_S)
    readers.limits = replace(readers.limits, max_wait_s=0.3)
    return texts


async def test_many_long_texts_delay_only_each_other() -> None:
    """Texts are tokenized on a few separate threads; a call that gets none in time is rejected with a retry delay."""
    release = threading.Event()
    async with running() as run:
        readers = run.server.readers
        texts = await occupied(readers, release)
        rejection = await rejection_of(token_pb2_grpc.TokenServiceStub(run.channel).TokenizeText(TEXT))
        assert (await run.chat.Chat(request())).choices
        release.set()
        await asyncio.gather(*texts, return_exceptions=True)
    assert (rejection.code, rejection.info.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "QUEUE_FULL")


async def test_chats_are_counted_on_threads_other_than_those_of_answers() -> None:
    """A call that counts a chat's tokens waits for other counted texts, and answers are prepared meanwhile."""
    release = threading.Event()
    counted = token_pb2.CountTokensRequest(chat=chat_pb2.ChatRequest(model=MODEL, messages=[user("x")]))
    async with running() as run:
        scripted = run.server.registry.visible_to(ANONYMOUS).generator(MODEL)
        run.server.registry.add(replace(scripted, preparation=(preparation := preparation_of())))
        readers = run.server.readers
        texts = await occupied(readers, release)
        rejection = await rejection_of(token_pb2_grpc.TokenServiceStub(run.channel).CountTokens(counted))
        assert await preparation.prepare(chat(), "r")
        release.set()
        await asyncio.gather(*texts, return_exceptions=True)
    assert (rejection.code, rejection.info.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "QUEUE_FULL")
