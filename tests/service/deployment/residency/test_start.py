"""The start with models on demand: real models, described from their files; a request loads its model's weights."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from grpc import aio
from safetensors.numpy import save_file
from sluice.v1 import chat_pb2_grpc, embedding_pb2, embedding_pb2_grpc, rank_pb2, rank_pb2_grpc

from service.engine.interface.port import StepObserver
from service.engine.link.worker.worker_process import end_unused_workers
from service.engine.models.checkpoint.adapter_files import CONFIG, TENSORS
from service.generation.caller import ANONYMOUS
from service.generation.errors import ModelLoadError
from service.loading.model import load_model
from service.observability.telemetry import Telemetry
from service.registry.description import ModelDescription, Task
from service.registry.models import ServedModel
from service.server.listener import StartError
from service.server.server import Server
from service.settings.bundled_models import DEMO_FOLDER, embedding_folder
from service.settings.model_settings import ModelSettings
from tests.service.fakes import rejection_of, request, settings_of

ENGINE = {"num_blocks": 64, "num_threads": 1}
HIDDEN_SIZE = 256  # of the bundled model


@dataclass
class Start:
    """A service, and the names of the models that were loaded with their weights, at the start or by requests."""

    server: Server
    channel: aio.Channel
    loads: list[str] = field(default_factory=list)

    @property
    def in_memory(self) -> set[str]:
        return {model.name for model in self.server.registry.loaded if not model.engine.is_asleep}

    def description(self, name: str) -> ModelDescription:
        model = self.server.registry.find(name)
        assert model is not None
        return model.description


@asynccontextmanager
async def start(models: Sequence[dict[str, Any]], **settings: Any) -> AsyncIterator[Start]:
    """Start a service with memory for two models."""
    chosen = settings_of(model={}, models=models, max_loaded_models=2, engine=ENGINE, **settings)
    telemetry = Telemetry(None)
    server = Server(chosen, telemetry)

    async def load(model: ModelSettings, observer: StepObserver) -> ServedModel:
        service.loads.append(model.name)
        return await asyncio.to_thread(load_model, model, observer)

    async def describe(model: ModelSettings, observer: StepObserver) -> ServedModel:
        return await asyncio.to_thread(load_model, model, observer, is_asleep=True)

    try:
        port = await server.start()
        async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            service = Start(server, channel)
            await server.load(chosen.served_models(), load, describe)
            yield service
    finally:
        await server.close()
        telemetry.shutdown()
        end_unused_workers()


def adapter_folder(folder: Path, num_inputs: int = HIDDEN_SIZE) -> str:
    """Write an adapter that changes a matrix of the bundled model, or one of another size, and return the folder."""
    folder.mkdir()
    (folder / CONFIG).write_text(json.dumps({"peft_type": "LORA", "r": 2, "lora_alpha": 4}))
    stem = "base_model.model.model.layers.0.self_attn.q_proj"
    shapes = {f"{stem}.lora_A.weight": (2, num_inputs), f"{stem}.lora_B.weight": (256, 2)}
    save_file({name: np.ones(shape, np.float32) for name, shape in shapes.items()}, folder / TENSORS)
    return str(folder)


async def test_the_start_loads_only_pinned_models_and_describes_the_others_completely(tmp_path: Path) -> None:
    """A loaded model's description is that of before; requests for all kinds of models are answered."""
    models: list[dict[str, Any]] = [
        {"name": "writer", "path": str(DEMO_FOLDER), "pinned": True},
        {"name": "coder0", "path": str(DEMO_FOLDER)},
        {
            "name": "coder1",
            "path": str(DEMO_FOLDER),
            "rank": {"prompt": "{query} {document}", "yes_word": "y", "no_word": "n"},
            "adapters": {"good": adapter_folder(tmp_path / "good"), "wide": adapter_folder(tmp_path / "wide", 512)},
        },
        {"name": "vectors", "path": str(embedding_folder())},
    ]
    async with start(models) as service:
        assert service.loads == ["writer"]
        assert service.in_memory == {"writer"}
        written, described = service.description("writer"), service.description("coder1")
        assert (described.fingerprint, described.max_model_len) == (written.fingerprint, written.max_model_len)
        assert (described.tasks, described.num_parameters) == ([*written.tasks, Task.RANK], written.num_parameters)
        adapted = service.description("coder1:good")
        assert (adapted.parent, adapted.fingerprint != described.fingerprint) == ("coder1", True)

        chat = chat_pb2_grpc.ChatServiceStub(service.channel).Chat
        texts = [
            (await chat(request(model=name))).choices[0].message.content[0].text for name in ("coder1:good", "coder1")
        ]
        assert texts[0] != texts[1]
        assert service.in_memory == {"writer", "coder1"}
        assert (service.description("coder1"), service.description("coder1:good")) == (described, adapted)
        rejected = await rejection_of(chat(request(model="coder1:wide")))
        assert (rejected.info.reason, "q_proj" in rejected.text) == ("ADAPTER_LOST", True), rejected.text
        asked = rank_pb2.RankRequest(model="coder1", query="a", documents=["b", "c"])
        ranked = await rank_pb2_grpc.RankServiceStub(service.channel).Rank(asked)
        assert len(ranked.results) == 2

        of_vectors = service.description("vectors")
        embed = embedding_pb2_grpc.EmbeddingServiceStub(service.channel).Embed
        vectors = await embed(embedding_pb2.EmbedRequest(model="vectors", inputs=[{"text": "hi"}]))
        assert len(vectors.embeddings[0].values) == of_vectors.embedding_dimensions
        assert service.in_memory == {"writer", "vectors"}
        assert service.description("vectors") is of_vectors
        assert service.loads == ["writer"], "a wake loaded each model as it was described"


async def test_a_broken_folder_ends_the_start_although_no_weights_are_read(tmp_path: Path) -> None:
    """The error names the file."""
    shutil.copytree(DEMO_FOLDER, tmp_path / "broken")
    weights = tmp_path / "broken" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ModelLoadError, match=r"model\.safetensors"):
        async with start([{"name": "broken", "path": str(tmp_path / "broken")}]):
            pass


@pytest.mark.parametrize("file", [CONFIG, TENSORS])
async def test_a_broken_adapter_ends_the_start(file: str, tmp_path: Path) -> None:
    """The error names the file."""
    adapter = adapter_folder(tmp_path / "adapter")
    (tmp_path / "adapter" / file).write_bytes(b"{")
    with pytest.raises(StartError, match=file):
        async with start([{"name": "model", "path": str(DEMO_FOLDER), "adapters": {"bad": adapter}}]):
            pass


async def test_a_model_whose_files_change_before_its_first_load_is_described_again(tmp_path: Path) -> None:
    shutil.copytree(DEMO_FOLDER, tmp_path / "model")
    async with start([{"name": "model", "path": str(tmp_path / "model")}]) as service:
        before = service.description("model").fingerprint
        config = tmp_path / "model" / "generation_config.json"
        config.write_text(config.read_text() + "\n")
        async with service.server.residency.held("model", ANONYMOUS, None):
            assert service.in_memory == {"model"}
        assert service.description("model").fingerprint != before
        assert service.loads == ["model"]
