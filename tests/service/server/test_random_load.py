"""The whole service under random load of all kinds: every call ends once, and everything is released."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
import torch
import transformers
from grpc import aio
from sluice.v1 import completion_pb2

from service.engine.interface.port import StepObserver
from service.generation.caller import ANONYMOUS
from service.loading.model import load_model
from service.observability.telemetry import Telemetry
from service.registry.models import ServedModel
from service.server.server import Server
from service.settings.engine_settings import EngineSettings
from service.settings.model_settings import ModelSettings
from tests.engine.constraints.fakes import ADDED, END, tokenizer_of
from tests.engine.encoder_fakes import save_encoder
from tests.engine.fakes import until
from tests.engine.folders.tiny_models import config, random_model
from tests.service.fakes import settings_of
from tests.service.prompts.fakes import CHATML
from tests.service.random_calls import (
    BEGINNINGS,
    ENCODER,
    END_ID,
    GENERATOR,
    MAX_LENGTH,
    METHODS,
    RandomCall,
    random_call,
)
from tests.service.server.endings import Ending, check_ending, end_of
from tests.service.server.random_service import Service

NUM_CALLS = 2000
NUM_CALLERS = 32
STATUSES = {
    grpc.StatusCode.OK,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
}


def save_generator(folder: Path) -> None:
    """Save a random model with a chat template and a tokenizer that has a token for each byte."""
    folder.mkdir()
    torch.manual_seed(0)
    tokenizer = tokenizer_of(*ADDED)
    assert tokenizer.encode(END) == [END_ID]
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = random_model(
        config(
            "qwen3",
            **sizes,
            num_key_value_heads=1,
            head_dim=16,
            vocab_size=tokenizer.vocab_size,
            max_position_embeddings=MAX_LENGTH,
            eos_token_id=END_ID,
        )
    )
    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(tokenizer.json)
    whole: Any = transformers.PreTrainedTokenizerFast
    whole(tokenizer_file=str(folder / "tokenizer.json"), chat_template=CHATML, eos_token=END).save_pretrained(folder)


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Service]:
    """Run two real models on a real server; the generator's cache holds only a few sequences at a time."""
    torch.set_num_threads(1)
    save_generator(folder / GENERATOR)
    save_encoder("bert", folder / ENCODER)
    engine = {
        GENERATOR: EngineSettings(
            block_size=8,
            num_blocks=MAX_LENGTH // 8,
            max_batch_tokens=128,
            max_batch_sequences=16,
            max_prefill_chunk=48,
            max_queue_requests=45,
            num_threads=1,
        ),
        ENCODER: EngineSettings(max_batch_tokens=128, num_threads=1),
    }
    settings = settings_of(model={name: str(folder / name) for name in engine})
    telemetry = Telemetry(None)
    server = Server(settings, telemetry)

    async def load(model: ModelSettings, observer: StepObserver) -> ServedModel:
        filled = {"dtype": "float32", "device": "cpu", "cache_share": 1.0, "engine": engine[model.name]}
        return load_model(model.model_copy(update=filled), observer)

    port = await server.start()
    await server.load(settings.served_models(), load)
    try:
        async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            generator, encoder = (
                server.registry.visible_to(ANONYMOUS).generator(GENERATOR),
                server.registry.visible_to(ANONYMOUS).encoder(ENCODER),
            )
            yield Service(generator, encoder, channel)
    finally:
        await server.close()
        telemetry.shutdown()


async def until_idle(service: Service) -> None:
    """Return when all engines are idle and every block is free; fail if that never happens."""

    def is_idle() -> bool:
        stats = [served.engine.stats() for served in (service.generator, service.encoder)]
        return not any(each.num_running or each.num_waiting for each in stats) and all(
            each.num_free_blocks == each.num_blocks for each in stats
        )

    await until(is_idle)
    await service.generator.engine.check()
    assert not service.generator.engine.num_open
    assert not service.encoder.engine.num_open


async def greedy_texts(service: Service) -> list[str]:
    """Return the model's answers to a few prompts that share prefixes with the load."""
    texts = []
    for text in BEGINNINGS:
        fields: dict[str, Any] = {"sampling": {"temperature": 0}, "stopping": {"max_tokens": 20, "ignore_eos": True}}
        request = completion_pb2.CompleteRequest(model=GENERATOR, prompts=[{"text": f"{text}abba"}], **fields)
        texts.append((await service.methods["Complete"](request)).choices[0].text)
    return texts


@pytest.mark.long
async def test_2000_random_calls_end_once_and_release_everything(tmp_path: Path) -> None:
    """Each call, cancelled, late, preempted or rejected, ends once, and every block and task is released."""
    draw = random.Random(11)
    calls = [random_call(draw) for _ in range(NUM_CALLS)]
    room = asyncio.Semaphore(NUM_CALLERS)
    async with serving(tmp_path) as service:

        async def run(expected: RandomCall) -> Ending:
            async with room:
                return await end_of(service, expected)

        texts = await greedy_texts(service)
        num_tasks = len(asyncio.all_tasks())
        endings = await asyncio.gather(*map(run, calls))
        await until_idle(service)
        await until(lambda: len(asyncio.all_tasks()) <= num_tasks)
        assert await greedy_texts(service) == texts
        stats = service.generator.engine.stats()
    for ending in endings:
        check_ending(ending)

    assert stats.num_preemptions > 0
    assert stats.num_prefix_hit_tokens > 0
    by_status: dict[grpc.StatusCode, list[Ending]] = {}
    for ending in endings:
        by_status.setdefault(ending.status, []).append(ending)
    assert by_status.keys() == STATUSES, "the load does not reach every end"
    for status in (grpc.StatusCode.OK, grpc.StatusCode.CANCELLED):
        assert {ending.call.method for ending in by_status[status]} == METHODS
    left = [ending for ending in by_status[grpc.StatusCode.CANCELLED] if ending.call.is_streamed]
    assert {bool(ending.got) for ending in left} == {False, True}
