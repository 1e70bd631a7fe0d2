"""A real server with two tiny real models, for random calls."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from grpc import aio

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
from tests.engine.folders.tiny_models import config, random_model
from tests.service.fakes import settings_of
from tests.service.prompts.fakes import CHATML
from tests.service.random_calls import ENCODER, END_ID, GENERATOR, MAX_LENGTH
from tests.service.server.random_service import Service


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
async def serving(folder: Path, block_size: int = 8, **more: Any) -> AsyncIterator[Service]:
    """Run two real models on a real server; the generator's cache holds only a few sequences at a time.

    The native backend takes blocks of 16 tokens, not of 8. `more` are further settings.
    """
    torch.set_num_threads(1)
    save_generator(folder / GENERATOR)
    save_encoder("bert", folder / ENCODER)
    engine = {
        GENERATOR: EngineSettings(
            block_size=block_size,
            num_blocks=MAX_LENGTH // block_size,
            max_batch_tokens=128,
            max_batch_sequences=16,
            max_prefill_chunk=48,
            max_queue_requests=45,
            num_threads=1,
        ),
        ENCODER: EngineSettings(max_batch_tokens=128, num_threads=1),
    }
    settings = settings_of(model={name: str(folder / name) for name in engine}, **more)
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
