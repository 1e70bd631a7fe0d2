"""A server with several scripted models, for the tests of endpoints."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from grpc import aio
from grpc_health.v1 import health_pb2_grpc
from sluice.v1 import adapter_pb2_grpc, chat_pb2_grpc, endpoint_pb2, endpoint_pb2_grpc, model_pb2_grpc

from service.engine.client.embedder import EmbedderClient
from service.engine.client.generator import GeneratorClient
from service.engine.core.encoder_core import EncoderCore
from service.engine.interface.port import StepObserver
from service.engine.link.thread_link import ThreadLink
from service.generation.errors import ModelLoadError
from service.generation.requests.embedding import TokenIds, Vector
from service.observability.telemetry import Telemetry
from service.prompts.embeddings.embedding import EmbeddingPrompts
from service.registry.description import ModelDescription, Task
from service.registry.model_files import ModelFiles
from service.registry.models import ServedEncoder, ServedModel
from service.server.server import Server
from service.settings.model_settings import ModelSettings
from tests.engine.byte_tokenizer import ByteTokenizer
from tests.engine.fakes import config_of
from tests.service.fakes import ScriptedRunner, scripted_engine, served, settings_of
from tests.service.plain_preparation import PlainPreparation

GENERATES = (Task.CHAT, Task.COMPLETION)


@dataclass
class Serving:
    """A server on a free port; each model generates its own name."""

    server: Server
    port: int
    runners: dict[str, ScriptedRunner]
    engines: dict[str, GeneratorClient]
    chat: Any
    models: Any
    endpoints: Any
    adapters: Any
    health: Any
    failing_names: set[str]  # names of models that fail to load
    held: dict[str, asyncio.Event]  # events that hold the loads of models, by name
    log: list[str]  # names of models whose load has begun, in order
    telemetry: Telemetry

    async def create(self, name: str, *shares: tuple[str, str, int]) -> endpoint_pb2.Endpoint:
        """Create an endpoint of entities (name, model, percentage)."""
        request = endpoint_pb2.CreateEndpointRequest(name=name, entities=entities_of(*shares))
        endpoint: endpoint_pb2.Endpoint = (await self.endpoints.CreateEndpoint(request)).endpoint
        return endpoint

    async def update(self, name: str, *shares: tuple[str, str, int]) -> endpoint_pb2.Endpoint:
        """Replace the entities of an endpoint."""
        request = endpoint_pb2.UpdateEndpointRequest(name=name, entities=entities_of(*shares))
        endpoint: endpoint_pb2.Endpoint = (await self.endpoints.UpdateEndpoint(request)).endpoint
        return endpoint

    async def names(self) -> list[str]:
        """Return the names of all endpoints."""
        listed = await self.endpoints.ListEndpoints(endpoint_pb2.ListEndpointsRequest())
        return [endpoint.name for endpoint in listed.endpoints]

    async def get(self, name: str) -> endpoint_pb2.Endpoint:
        """Return one endpoint."""
        endpoint: endpoint_pb2.Endpoint = (
            await self.endpoints.GetEndpoint(endpoint_pb2.GetEndpointRequest(name=name))
        ).endpoint
        return endpoint


class LengthRunner:
    """An encoder's runner that returns the number of tokens of an input as its vector."""

    def run(self, inputs: Sequence[TokenIds], second_starts: Sequence[int] = ()) -> Sequence[Vector]:
        return [np.array([len(tokens)], np.float32) for tokens in inputs]


def entities_of(*shares: tuple[str, str, int]) -> list[endpoint_pb2.ServedEntity]:
    """Return entities from tuples of name, model and percentage."""
    return [
        endpoint_pb2.ServedEntity(name=name, model=model, traffic_percentage=percentage)
        for name, model, percentage in shares
    ]


def both(first: int = 50, second: int = 50) -> list[tuple[str, str, int]]:
    """Return the entities `a` and `b`, each over the model of the same name."""
    return [("a", "a", first), ("b", "b", second)]


def encoder(name: str) -> ServedEncoder:
    """Return an embedding model with the attributes that the registry reads."""
    description = ModelDescription(name, tasks=[Task.EMBEDDING])
    tokenizer, config = ByteTokenizer(), config_of()
    link = ThreadLink(EncoderCore(LengthRunner(), config.max_batch_tokens), name="encoder")
    engine = EmbedderClient(link, config, vocab_size=tokenizer.vocab_size)
    engine.start()
    return ServedEncoder(
        description,
        engine,
        EmbeddingPrompts(tokenizer, engine.max_model_len, 1),
        tokenizer,
        ModelFiles(Path("nowhere")),
    )


@asynccontextmanager
async def serving(
    *models: str, tasks: Mapping[str, Sequence[Task]] | None = None, failing: Collection[str] = (), **settings: Any
) -> AsyncIterator[Serving]:
    """Serve `models` and an encoder until the end of the block; models without an entry in `tasks` are generative.

    Models in `failing` can't be loaded.
    """
    telemetry = Telemetry(None)
    chosen = settings_of(model=dict.fromkeys(models, "nowhere"), **settings)
    server = Server(chosen, telemetry)
    runners = {name: ScriptedRunner(name) for name in models}
    engines: dict[str, GeneratorClient] = {}
    failing_names = set(failing)
    held: dict[str, asyncio.Event] = {}
    log: list[str] = []

    async def load(model: ModelSettings, observer: StepObserver) -> ServedModel:
        if model.name in failing_names:
            raise ModelLoadError(f"{model.path}: too large")
        log.append(model.name)
        if model.name in held:
            await held[model.name].wait()
        runner = runners.setdefault(model.name, ScriptedRunner(model.name))
        engines[model.name] = scripted_engine(runner, observer)
        return served(model.name, engines[model.name], PlainPreparation(), (tasks or {}).get(model.name, GENERATES))

    port = await server.start()
    try:
        await server.load(chosen.served_models(), load)
        server.registry.add(encoder("encoder"))
        async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield Serving(
                server,
                port,
                runners,
                engines,
                chat_pb2_grpc.ChatServiceStub(channel),
                model_pb2_grpc.ModelServiceStub(channel),
                endpoint_pb2_grpc.EndpointServiceStub(channel),
                adapter_pb2_grpc.AdapterServiceStub(channel),
                health_pb2_grpc.HealthStub(channel),
                failing_names,
                held,
                log,
                telemetry,
            )
    finally:
        await server.close()
        telemetry.shutdown()
