"""Measure what a receipt adds to the time of an answer.

Run: python -m bench.calls.receipt [--model FOLDER] [--tokens 200] [--rounds 150]

One service in this process, called over gRPC; whole answers of the same request with and without a receipt follow one
another, in random order. `work` is the time of the receipt's own parts, measured alone: the chain of the answer's
tokens, added one by one, and the signature. The bundled model is the worst case, since its tokens take the least time.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from grpc import aio
from sluice.v1 import chat_pb2, chat_pb2_grpc, content_pb2

from bench.shapes import DEMO
from service.engine.interface.port import StepObserver
from service.loading.model import load_model
from service.observability.telemetry import Telemetry
from service.receipts.signing_key import SigningKey
from service.receipts.token_chain import TokenChain
from service.registry.models import ServedModel
from service.server.server import Server
from service.settings.config import Settings
from service.settings.model_settings import ModelSettings


def request_of(num_tokens: int, *, receipt: bool) -> chat_pb2.ChatRequest:
    """Return a chat whose answer has `num_tokens`."""
    request = chat_pb2.ChatRequest(model="bench", serving={"receipt": receipt})
    request.messages.add(role=content_pb2.ROLE_USER).content.add(text="Which colours has a rainbow?")
    request.sampling.temperature = 0
    request.stopping.max_tokens, request.stopping.ignore_eos = num_tokens, True
    return request


async def answer_times(channel: aio.Channel, num_tokens: int, num_rounds: int) -> dict[bool, list[float]]:
    """Return the seconds of answers without and with a receipt; the first ones don't count."""
    stub: Any = chat_pb2_grpc.ChatServiceStub(channel)
    times: dict[bool, list[float]] = {False: [], True: []}
    for number in range(-5, num_rounds):
        for receipt in random.sample([False, True], 2):
            began = time.perf_counter()
            await stub.Chat(request_of(num_tokens, receipt=receipt))
            if number >= 0:
                times[receipt].append(time.perf_counter() - began)
    return times


def work_s(key: SigningKey, num_tokens: int) -> float:
    """Return the median seconds of the chain and the signature of one answer."""
    times = []
    for _ in range(200):
        began = time.perf_counter()
        chain = TokenChain()
        for token_id in range(num_tokens):
            chain.add([token_id])
        key.sign({"model": "bench", "request": "0" * 64, "weights": "0" * 64, "tokens": [chain.claim()]})
        times.append(time.perf_counter() - began)
    return statistics.median(times)


async def measure(model: Path, num_tokens: int, num_rounds: int, key_file: Path) -> None:
    """Run the service, and print the measurements."""
    key = SigningKey.create(key_file)
    settings = Settings(
        port=0, metrics_port=0, drain_delay_s=0, model={"bench": str(model)}, receipts={"key_file": key_file}
    )
    telemetry = Telemetry(None)
    server = Server(settings, telemetry)

    async def load(chosen: ModelSettings, observer: StepObserver) -> ServedModel:
        return await asyncio.to_thread(load_model, chosen, observer)

    port = await server.start()
    await server.load(settings.served_models(), load)
    try:
        async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            times = await answer_times(channel, num_tokens, num_rounds)
    finally:
        await server.close()
        telemetry.shutdown()
    without, with_receipt = (statistics.median(times[each]) for each in (False, True))
    work = work_s(key, num_tokens)
    print(
        f"an answer of {num_tokens} tokens: {without * 1e3:.2f} ms without a receipt, {with_receipt * 1e3:.2f} ms with"
    )
    print(f"ratio {with_receipt / without:.4f}; work {work * 1e3:.3f} ms, {work / without:.2%} of the answer's time")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=DEMO)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=150)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(options.model, options.tokens, options.rounds, Path(folder) / "key.pem"))


if __name__ == "__main__":
    main()
