"""A server with a scripted encoder, cross-encoder and generative model, for the tests of embeddings and ranks."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from grpc import aio
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from sluice.inference import inference_pb2_grpc
from sluice.v1 import chat_pb2_grpc, embedding_pb2, embedding_pb2_grpc, model_pb2_grpc, rank_pb2_grpc
from sluice.vllm import engine_pb2_grpc

from service.engine.client.embedder import EmbedderClient
from service.engine.core.encoder_core import EncoderCore
from service.engine.interface.config import EngineConfig
from service.engine.interface.port import StepObserver
from service.engine.link.thread_link import ThreadLink
from service.generation.errors import PromptTooLong
from service.generation.requests.embedding import TokenIds, Vector
from service.observability.telemetry import Telemetry
from service.prompts.embeddings.embedding import EmbeddingPrompts
from service.prompts.pairs.pair_reader import PairTexts, PairTokens
from service.ranking.cross_encoder import CrossEncoderRanker
from service.registry.description import ModelDescription, Task
from service.registry.model_files import ModelFiles
from service.registry.models import ServedCrossEncoder, ServedEncoder, ServedModel
from service.server.server import Server
from service.settings.model_settings import ModelSettings
from tests.engine.encoder_fakes import NUM_DIMENSIONS, VOCAB_SIZE, FramedTokenizer, HandRunner
from tests.engine.fakes import until
from tests.service.fakes import MODEL, ScriptedRunner, scripted_engine, served, settings_of
from tests.service.plain_preparation import PlainPreparation
from tests.waiting import GUARD_S

ENCODER = "encoder"
CROSS = "cross"


class GatedRunner(HandRunner):
    """A scripted runner whose batches wait at a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.fail_with: BaseException | None = None
        self.entered = threading.Event()
        self.gate = threading.Event()  # each batch waits for it
        self.gate.set()
        self.max_runs: int | None = None  # the gate closes after this number of batches

    def run(self, inputs: Sequence[TokenIds], second_starts: Sequence[int] = ()) -> list[Vector]:
        self.entered.set()
        if len(self.batches) == self.max_runs:
            self.gate.clear()
        assert self.gate.wait(GUARD_S)
        if self.fail_with is not None:
            raise self.fail_with
        return super().run(inputs)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Hold all batches until the end of the block."""
        self.gate.clear()
        try:
            yield
        finally:
            self.gate.set()


class HandPairs:
    """A pair reader that concatenates the bytes of both texts, at most 16."""

    takes_instruction = False

    def read(self, texts: PairTexts) -> PairTokens:
        first, second = texts.query.encode(), texts.document.encode()[: texts.max_document_tokens]
        if len(first + second) > 16 and not texts.truncates:
            raise PromptTooLong(texts.document_field, len(first + second), 16)
        ids = np.frombuffer((first + second)[:16], np.uint8).astype(np.int64)
        return PairTokens(ids, len(first))


@dataclass
class RunningEncoder:
    """The server and the parts that tests inspect."""

    server: Server
    telemetry: Telemetry
    engine: EmbedderClient
    runner: GatedRunner
    spans: InMemorySpanExporter
    embeddings: Any
    models: Any
    chat: Any
    ranks: Any
    inference: Any
    vllm: Any

    async def until_idle(self) -> None:
        """Return when no request is running or queued; fail if that never happens."""
        await until(lambda: not self.engine.num_open)
        await self.engine.check()  # answered when all earlier commands have been handled
        await until(lambda: not self.engine.stats().num_waiting)


def embed(*texts: str, **fields: Any) -> embedding_pb2.EmbedRequest:
    """Return a valid request."""
    return embedding_pb2.EmbedRequest(**{"model": ENCODER, "inputs": [{"text": text} for text in texts], **fields})


@asynccontextmanager
async def running_encoder(engine: dict[str, Any] | None = None, **settings: Any) -> AsyncIterator[RunningEncoder]:
    """Run the server, and stop it at the end."""
    spans = InMemorySpanExporter()
    telemetry = Telemetry(None, [SimpleSpanProcessor(spans)])
    chosen = settings_of(**{"model": dict.fromkeys([ENCODER, CROSS, MODEL], "nowhere"), **settings})
    server = Server(chosen, telemetry)
    runner = GatedRunner()
    made: list[EmbedderClient] = []

    async def load(model: ModelSettings, observer: StepObserver) -> ServedModel:
        if model.name == CROSS:
            link = ThreadLink(EncoderCore(HandRunner(), 2048), name="cross-encoder")
            front = EmbedderClient(link, EngineConfig(max_model_len=16), vocab_size=VOCAB_SIZE, observer=observer)
            ranker = CrossEncoderRanker(front, HandPairs(), "sigmoid")
            return ServedCrossEncoder(ModelDescription(CROSS, tasks=[Task.RANK]), front, ranker, FramedTokenizer())
        if model.name != ENCODER:
            return served(model.name, scripted_engine(ScriptedRunner("hello"), observer), PlainPreparation())
        config = EngineConfig(max_model_len=16, **engine or {})
        link = ThreadLink(EncoderCore(runner, config.max_batch_tokens), name="encoder")
        made.append(EmbedderClient(link, config, vocab_size=VOCAB_SIZE, observer=observer))
        description = ModelDescription(ENCODER, tasks=[Task.EMBEDDING, Task.RANK], embedding_dimensions=NUM_DIMENSIONS)
        tokenizer = FramedTokenizer()
        prompts = EmbeddingPrompts(tokenizer, made[0].max_model_len, NUM_DIMENSIONS)
        return ServedEncoder(description, made[0], prompts, tokenizer, ModelFiles(Path("nowhere")))

    port = await server.start()
    await server.load(chosen.served_models(), load)
    try:
        async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield RunningEncoder(
                server,
                telemetry,
                made[0],
                runner,
                spans,
                embedding_pb2_grpc.EmbeddingServiceStub(channel),
                model_pb2_grpc.ModelServiceStub(channel),
                chat_pb2_grpc.ChatServiceStub(channel),
                rank_pb2_grpc.RankServiceStub(channel),
                inference_pb2_grpc.GRPCInferenceServiceStub(channel),
                engine_pb2_grpc.VllmEngineStub(channel),
            )
    finally:
        runner.gate.set()
        await server.close()
        telemetry.shutdown()
