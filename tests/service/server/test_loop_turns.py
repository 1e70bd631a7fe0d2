"""The part of the event loop's time that one large answer takes."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from typing import Any

import pytest
from sluice.v1 import chat_pb2, logprobs_pb2

from service.engine.core.engine_core import SampledToken
from service.engine.core.step import Step
from service.generation.caller import ANONYMOUS
from service.generation.errors import SequenceError
from service.generation.outputs.output import TokenLogprob
from tests.engine.byte_tokenizer import ByteTokenizer
from tests.service.fakes import MODEL, ScriptedRunner, request, running

NUM_CHOICES, NUM_TOKENS, NUM_TOP = 32, 60, 20
NUM_LOOKUPS = NUM_CHOICES * NUM_TOKENS * (1 + NUM_TOP)


class LogprobRunner(ScriptedRunner):
    """A runner that returns logprobs of each token."""

    def run(self, step: Step) -> list[SampledToken | SequenceError | None]:
        top = tuple((97 + index, -1.0) for index in range(NUM_TOP))
        return [
            SampledToken(each.token_id, TokenLogprob(each.token_id, -1.0, top))
            if isinstance(each, SampledToken)
            else each
            for each in super().run(step)
        ]


class CountingTokenizer(ByteTokenizer):
    """A tokenizer that counts the lookups of tokens' bytes, in all and on the event loop's thread."""

    def __init__(self) -> None:
        self.num_lookups = self.num_on_loop = 0
        self._loop_thread = threading.get_ident()

    def token_bytes(self, token_id: int) -> bytes:
        self.num_lookups += 1
        self.num_on_loop += threading.get_ident() == self._loop_thread
        return super().token_bytes(token_id)


@pytest.mark.slow
async def test_large_answers_yield_to_other_calls() -> None:
    """Other calls get turns while outputs that have piled up are read and rendered, streamed or whole."""
    sizes = {"num_blocks": 4000, "max_model_len": 1000}
    for stream in (False, True):
        runner = LogprobRunner("a" * NUM_TOKENS)
        async with running(runner, engine=sizes) as run:
            tokenizer = CountingTokenizer()
            model = run.server.registry.visible_to(ANONYMOUS).generator(MODEL)
            run.server.registry.add(replace(model, tokenizer=tokenizer))
            turns: list[int] = []

            async def tick(tokenizer: CountingTokenizer = tokenizer, turns: list[int] = turns) -> None:
                while True:
                    before = tokenizer.num_on_loop
                    await asyncio.sleep(0)
                    turns.append(tokenizer.num_on_loop - before)

            ticking = asyncio.create_task(tick())
            message = request(
                n=NUM_CHOICES,
                logprobs=logprobs_pb2.LogprobsOptions(top_logprobs=NUM_TOP),
                stopping={"max_tokens": NUM_TOKENS},
            )
            answering = asyncio.create_task(_num_logprobs(run.chat, message, stream=stream))
            await asyncio.to_thread(runner.entered.wait)
            time.sleep(0.5)  # noqa: ASYNC251  holds the loop, so that outputs pile up
            assert await answering == NUM_CHOICES * NUM_TOKENS
            ticking.cancel()
        assert tokenizer.num_lookups >= NUM_LOOKUPS
        assert max(turns) < NUM_LOOKUPS / 6, stream


async def _num_logprobs(stub: Any, message: chat_pb2.ChatRequest, *, stream: bool) -> int:
    if stream:
        events = [event async for event in stub.StreamChat(message)]
        return sum(len(event.content_delta.logprobs) for event in events)
    chat = await stub.Chat(message)
    return sum(len(choice.logprobs) for choice in chat.choices)
