"""Answers to random requests are computed again with equal receipts; the receipts of other requests are refused."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
from grpc import aio

from service.receipts.base64url import from_text
from service.receipts.signing_key import SigningKey, to_jwk
from service.receipts.verification import verify
from tests.service.random_calls import random_call
from tests.service.server.random_models import serving
from tests.service.server.random_service import Service

NUM_REQUESTS = int(os.environ.get("RECEIPTS", "60"))
NUM_CALLERS: Final = 8  # more than one, so that answers are computed in other batches than before
WHOLE: Final = {"StreamChat": "Chat", "StreamComplete": "Complete", "StreamGenerateText": "GenerateText",
                "StreamResponse": "CreateResponse"}  # fmt: skip


def receipt_of(message: Any) -> str:
    """Return the receipt of a whole answer, or of the last event of a stream."""
    if "event" in message.DESCRIPTOR.oneofs_by_name:
        message = getattr(message, message.WhichOneof("event"))
    receipt: str = getattr(message, "response", message).receipt
    return receipt


async def call_of(service: Service, method: str, request: Any) -> str:
    """Return the receipt of a call. It is repeated while the server has no capacity."""
    while True:
        try:
            call = service.methods[method](request)
            if isinstance(call, aio.UnaryStreamCall):
                return receipt_of([event async for event in call][-1])
            return receipt_of(await call)
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                raise
            await asyncio.sleep(0.05)


@pytest.mark.slow
async def test_random_requests_replay_equal_and_tampered_ones_are_refused(tmp_path: Path) -> None:
    """Whole and streamed answers of every kind, in random company: their streams have the same receipts again."""
    key = SigningKey.create(tmp_path / "key.pem")
    draw = random.Random(17)
    kinds: set[str] = set()
    slots = asyncio.Semaphore(NUM_CALLERS)

    async def replay(service: Service, stream: str, first: str, request: Any) -> None:
        async with slots:
            try:
                receipt = await call_of(service, first, request)
            except aio.AioRpcError as error:  # the random parameters contradict each other
                assert error.code() is grpc.StatusCode.INVALID_ARGUMENT, error  # noqa: PT017
                return
            kinds.add(first)
            resume = verify(receipt, [to_jwk(key.public_key)])["resume"]
            request.resume.stream, request.resume.position = map(from_text, (resume["stream"], resume["position"]))
            request.resume.replay = True
            assert await call_of(service, stream, request) == receipt
            request.sampling.repetition_penalty = 1.1 if request.sampling.repetition_penalty > 1.5 else 1.7
            with pytest.raises(aio.AioRpcError) as caught:
                await call_of(service, stream, request)
            assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION

    async with serving(tmp_path, block_size=16, receipts={"key_file": tmp_path / "key.pem"}) as service:
        replays: list[Coroutine[Any, Any, None]] = []
        while len(replays) < NUM_REQUESTS:
            call = random_call(draw)
            stream = next((name for name, whole in WHOLE.items() if call.method in {name, whole}), None)
            if stream is None or call.wrong is not None:
                continue
            call.request.serving.receipt = True
            replays.append(replay(service, stream, call.method, call.request))
        await asyncio.gather(*replays)
    assert kinds == {*WHOLE, *WHOLE.values()}
