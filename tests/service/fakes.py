"""The fakes of the service's tests: an engine with a scripted runner, and a preparation without templates."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import abc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
from google.rpc import error_details_pb2
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_status import rpc_status
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from sluice.v1 import chat_pb2, chat_pb2_grpc, content_pb2, model_pb2_grpc

from service.deployment.deployment import LoadModel
from service.engine.client.generator import GeneratorClient
from service.engine.core.engine_core import SampledToken
from service.engine.core.generator_core import GeneratorCore
from service.engine.core.sequences.sequence import Sequence
from service.engine.core.step import Step
from service.engine.interface.port import StepObserver
from service.engine.link.thread_link import ThreadLink
from service.engine.tokens.watermark import Watermark
from service.generation.errors import SequenceError
from service.observability.telemetry import Telemetry
from service.output.tokens.watermark import WatermarkDetector
from service.registry.description import ModelDescription, Task
from service.registry.model_files import ModelFiles
from service.registry.models import ServedGenerator, ServedModel
from service.server.server import Server
from service.settings.config import Settings
from service.settings.model_settings import ModelSettings
from tests.engine.byte_tokenizer import END, ByteTokenizer
from tests.engine.fakes import config_of, until
from tests.engine.paged_runner import say
from tests.service.plain_preparation import PlainPreparation
from tests.waiting import GUARD_S

MODEL = "scripted"
WEIGHTS: Any = SimpleNamespace(digest=lambda: "0" * 64)  # without files
FILES = ModelFiles(Path("nowhere"))
ENDLESS = {"max_model_len": 1_000_000, "num_blocks": 250_000}  # longer than any test waits


class ScriptedRunner:
    """A runner that generates one text per choice, byte by byte, and then ends or starts over."""

    num_replays = 0

    def __init__(self, *texts: str, end: bool = True) -> None:
        self._rule = say(*texts, end=end)
        self.num_steps = 0
        self.delay_s = 0.0  # of each step
        self.kept: set[Sequence] = set()
        self.fail_with: Exception | None = None
        self.entered = threading.Event()
        self.gate = threading.Event()  # each step waits for it
        self.gate.set()
        self._num_free_steps = 0  # number of steps that don't wait for it

    def run(self, step: Step) -> list[SampledToken | SequenceError | None]:
        self.entered.set()
        if self._num_free_steps:
            self._num_free_steps -= 1
        else:
            assert self.gate.wait(GUARD_S)
        time.sleep(self.delay_s)
        if self.fail_with is not None:
            raise self.fail_with
        self.num_steps += 1
        self.kept |= {item.sequence for item in step.items}
        return [SampledToken(self._rule(item.sequence, [])) if item.samples else None for item in step.items]

    def follow(self, sequences: abc.Sequence[Sequence]) -> list[SampledToken | SequenceError]:
        return [SampledToken(self._rule(sequence, [])) for sequence in sequences]

    def release(self, sequence: Sequence) -> None:
        self.kept.remove(sequence)

    @contextmanager
    def paused(self, *, after: int = 0) -> Iterator[None]:
        """Hold steps until the end of the block, except the next few: a stream starts with its first step."""
        self._num_free_steps = after
        self.gate.clear()
        try:
            yield
        finally:
            self.gate.set()
            self._num_free_steps = 0


@dataclass
class Running:
    """A server on a free port with one scripted model, and the parts that tests inspect."""

    server: Server
    telemetry: Telemetry
    port: int
    channel: aio.Channel
    engine: GeneratorClient
    runner: ScriptedRunner
    preparation: PlainPreparation
    spans: InMemorySpanExporter
    load: LoadModel
    chat: Any = field(init=False)
    models: Any = field(init=False)
    health: Any = field(init=False)

    def __post_init__(self) -> None:
        self.chat = chat_pb2_grpc.ChatServiceStub(self.channel)
        self.models = model_pb2_grpc.ModelServiceStub(self.channel)
        self.health = health_pb2_grpc.HealthStub(self.channel)

    async def status(self, service: str = "") -> str:
        """Return the health status of `name`."""
        response = await self.health.Check(health_pb2.HealthCheckRequest(service=service))
        name: str = health_pb2.HealthCheckResponse.ServingStatus.Name(response.status)
        return name

    async def until_status(self, name: str) -> None:
        """Return when the overall health status is `name`."""
        async with asyncio.timeout(GUARD_S):
            while await self.status() != name:  # noqa: ASYNC110  polls as a prober would
                await asyncio.sleep(0.01)

    async def until_idle(self) -> None:
        """Return when no request is running or queued and every block is free; fail if that never happens."""

        def is_idle() -> bool:
            stats = self.engine.stats()
            is_free = stats.num_free_blocks == stats.num_blocks
            return is_free and (stats.num_running, stats.num_waiting) == (0, 0) and not self.runner.kept

        await until(is_idle)
        await self.engine.check()

    async def ended_spans(self, num: int) -> dict[str, ReadableSpan]:
        """Return the ended spans by name, once there are `num`."""
        await until(lambda: len(self.spans.get_finished_spans()) >= num)
        spans = {span.name: span for span in self.spans.get_finished_spans()}
        assert len(self.spans.get_finished_spans()) == num
        return spans


@asynccontextmanager
async def running(
    runner: ScriptedRunner | None = None,
    *,
    is_loaded: bool = True,
    engine: dict[str, int] | None = None,
    supports_resume: bool = True,
    collector: str | None = None,
    newest_names: bool = False,
    **settings: Any,
) -> AsyncIterator[Running]:
    """Run a server that generates the texts of `runner`; without `is_loaded`, it stays in the phase of starting."""
    spans = InMemorySpanExporter()
    telemetry = Telemetry(collector, [SimpleSpanProcessor(spans)], newest_names=newest_names)
    chosen = settings_of(**settings) if settings else plain_settings()
    server = Server(chosen, telemetry)
    runner = runner or ScriptedRunner("hello")
    preparation = PlainPreparation()
    made: list[GeneratorClient] = []

    async def load(model: ModelSettings, observer: StepObserver) -> ServedModel:
        made.append(scripted_engine(runner, observer, **engine or {}))
        return served(model.name, made[0], preparation, supports_resume=supports_resume)

    port = await server.start()
    if is_loaded:
        await server.load(chosen.served_models(), load)
    else:
        made.append(scripted_engine(runner))
    try:
        async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield Running(server, telemetry, port, channel, made[0], runner, preparation, spans, load)
    finally:
        await server.close()
        telemetry.shutdown()


def settings_of(**values: Any) -> Settings:
    """Return settings for a test: free ports and no delays, and changes by every client if there are no keys."""
    quick = {"port": 0, "metrics_port": 0, "drain_delay_s": 0, "drain_timeout_s": GUARD_S, "model": {MODEL: "nowhere"}}
    return Settings(**{**quick, "auth": {"allow_anonymous_changes": True}, **values})


plain_settings = cache(settings_of)  # of most tests: validating them takes long


def scripted_engine(runner: ScriptedRunner, observer: StepObserver | None = None, **sizes: int) -> GeneratorClient:
    """Return a small engine with `runner` that is not started."""
    config, tokenizer = config_of(**sizes), ByteTokenizer()
    core = GeneratorCore(runner, tokenizer, config, eos_token_ids=[END])
    return GeneratorClient(ThreadLink(core), config, vocab_size=tokenizer.vocab_size, observer=observer)


def served(
    name: str,
    engine: GeneratorClient,
    preparation: PlainPreparation,
    tasks: abc.Sequence[Task] = (Task.CHAT, Task.COMPLETION),
    *,
    supports_resume: bool = True,
) -> ServedGenerator:
    """Return the model in the form that servicers use."""
    description = ModelDescription(
        name, tasks=tasks, architecture="Scripted", fingerprint="fp", max_model_len=128, supports_resume=supports_resume
    )
    tokenizer = ByteTokenizer()
    preparation.max_model_len = engine.max_model_len
    prepares: Any = preparation  # only its attributes are used
    detector = WatermarkDetector(tokenizer, Watermark())
    return ServedGenerator(description, engine, prepares, detector, tokenizer, WEIGHTS, FILES)


def request(text: str = "hi", **fields: Any) -> chat_pb2.ChatRequest:
    """Return a valid chat request."""
    message = content_pb2.Message(role=content_pb2.ROLE_USER, content=[content_pb2.ContentPart(text=text)])
    return chat_pb2.ChatRequest(**{"model": MODEL, "messages": [message], **fields})


async def rest_of(call: Any) -> AsyncIterator[chat_pb2.StreamChatResponse]:
    """Yield the events of a stream that have not been read; unlike `async for`, it can follow a `read()`."""
    while (event := await call.read()) is not aio.EOF:
        yield event


async def rejection_of(call: Any) -> Rejection:
    """Return the error of a unary call, or of a stream read to its end; fail if the call succeeds."""
    events: list[chat_pb2.StreamChatResponse] = []
    try:
        if isinstance(call, aio.UnaryStreamCall):
            async for event in rest_of(call):
                events.append(event)  # noqa: PERF401  what came before the error counts
        else:
            await call
    except aio.AioRpcError as error:
        return Rejection(error, events)
    raise AssertionError("the call ended well")


@dataclass
class Rejection:
    """The error of a call with its decoded details."""

    error: aio.AioRpcError
    events: list[chat_pb2.StreamChatResponse] = field(default_factory=list)  # the messages before it

    @property
    def code(self) -> grpc.StatusCode:
        return self.error.code()

    @property
    def text(self) -> str:
        return self.error.details() or ""

    @property
    def request_id(self) -> object:
        return dict(self.error.trailing_metadata() or ()).get("x-request-id")

    def _detail(self, detail: Any) -> Any:
        status = rpc_status.from_call(self.error)  # type: ignore[arg-type]  # it has what a call has
        assert status is not None, "the error has no details"
        return detail if any(each.Unpack(detail) for each in status.details) else None

    @property
    def info(self) -> error_details_pb2.ErrorInfo:
        found: error_details_pb2.ErrorInfo | None = self._detail(error_details_pb2.ErrorInfo())
        assert found is not None
        return found

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The pairs (field, rule) of all violations."""
        bad = self._detail(error_details_pb2.BadRequest())
        return [] if bad is None else [(each.field, each.reason) for each in bad.field_violations]

    @property
    def quota_violations(self) -> abc.Sequence[error_details_pb2.QuotaFailure.Violation]:
        """The violated limits."""
        failure = self._detail(error_details_pb2.QuotaFailure())
        return () if failure is None else failure.violations

    @property
    def retry_after_s(self) -> float | None:
        info = self._detail(error_details_pb2.RetryInfo())
        return None if info is None else info.retry_delay.ToNanoseconds() / 1e9
