"""The start with models on demand: real models, described from their files; a request loads its model's weights."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from grpc import aio
from sluice.v1 import adapter_pb2, adapter_pb2_grpc, chat_pb2_grpc, embedding_pb2, embedding_pb2_grpc

from service.engine.interface.port import StepObserver
from service.engine.link.worker.worker_process import end_unused_workers
from service.generation.caller import ANONYMOUS
from service.generation.errors import ModelLoadError
from service.loading.model import load_model
from service.observability.telemetry import Telemetry
from service.registry.description import ModelDescription
from service.registry.models import ServedModel
from service.server.server import Server
from service.settings.bundled_models import DEMO_FOLDER, embedding_folder
from service.settings.model_settings import ModelSettings
from tests.service.fakes import rejection_of, request, settings_of

ENGINE = {"num_blocks": 64, "num_threads": 1}


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


async def test_the_start_loads_only_pinned_models_and_describes_the_others_completely() -> None:
    """A loaded model's description is that of before; requests for both kinds of models are answered."""
    models: list[dict[str, Any]] = [
        {"name": "writer", "path": str(DEMO_FOLDER), "pinned": True},
        *({"name": f"coder{index}", "path": str(DEMO_FOLDER)} for index in range(3)),
        {"name": "vectors", "path": str(embedding_folder())},
    ]
    async with start(models) as service:
        assert service.loads == ["writer"]
        assert service.in_memory == {"writer"}
        written, described = service.description("writer"), service.description("coder1")
        assert (described.fingerprint, described.max_model_len) == (written.fingerprint, written.max_model_len)
        assert (described.tasks, described.num_parameters) == (written.tasks, written.num_parameters)

        load = adapter_pb2_grpc.AdapterServiceStub(service.channel).LoadAdapter
        rejected = await rejection_of(load(adapter_pb2.LoadAdapterRequest(model="vectors", name="a", path="a")))
        assert [field for field, _ in rejected.fields] == ["model"]
        assert service.in_memory == {"writer"}, "a model that takes no adapters is not loaded for one"

        answer = await chat_pb2_grpc.ChatServiceStub(service.channel).Chat(request(model="coder1"))
        assert answer.usage.completion_tokens > 0
        assert service.in_memory == {"writer", "coder1"}
        assert service.description("coder1") is described

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
