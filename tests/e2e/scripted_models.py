"""Service and gateway, on real sockets, with models that generate scripted answers.

A model has its family's template and tokens. It calls a function, and answers when its prompt contains the function's
result.
"""

from __future__ import annotations

import socket
from collections import abc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx
from grpc import aio

from gateway.operators.drain import Drain
from gateway.server.app import build_app
from gateway.server.http_server import build_server
from gateway.settings.config import Settings as GatewaySettings
from gateway.telemetry.telemetry import Telemetry as GatewayTelemetry
from gateway.upstream.client import ServiceClient
from process.settings.process_settings import read_settings
from service.engine.client.generator import GeneratorClient
from service.engine.constraints.compiler import ConstraintCompiler
from service.engine.core.engine_core import SampledToken
from service.engine.core.generator_core import GeneratorCore
from service.engine.core.sequences.sequence import Sequence
from service.engine.core.step import Step
from service.engine.interface.port import StepObserver
from service.engine.link.thread_link import ThreadLink
from service.engine.tokens.tokenizer import FastTokenizer
from service.engine.tokens.watermark import Watermark
from service.generation.errors import SequenceError
from service.observability.telemetry import Telemetry
from service.output.tokens.watermark import WatermarkDetector
from service.prompting.chat_model import ChatModel
from service.prompting.preparation import Preparation
from service.prompts.preparing.workers import WorkerLimits, Workers
from service.registry.description import ModelDescription, Task
from service.registry.models import ServedGenerator
from service.server.server import Server
from service.settings.model_settings import ModelSettings
from tests.engine.constraints.fakes import control_ids_of, token_id
from tests.engine.fakes import config_of
from tests.service.fakes import FILES, WEIGHTS, settings_of
from tests.service.prompts.fakes import template_of
from tests.waiting import GUARD_S

RESULT = "sun, 25 degrees"  # the function's result


@dataclass
class Script:
    """The script of a model: its call and its answer, the tokens that end them, and the received prompts."""

    template: str
    tokenizer: FastTokenizer
    ends: tuple[str, ...]
    call: str
    answer: str
    prompts: list[str] = field(default_factory=list)

    def answer_to(self, prompt: str) -> list[int]:
        """Return the tokens of the answer to a prompt."""
        return self.tokenizer.encode(self.answer if RESULT in prompt else self.call)


class ScriptedRunner:
    """A runner that samples the tokens of the script's answer to a sequence's prompt."""

    num_replays = 0

    def __init__(self, script: Script) -> None:
        self._script = script
        self._answers: dict[Sequence, list[int]] = {}

    def run(self, step: Step) -> list[SampledToken | SequenceError | None]:
        """Return a token for each sequence that samples."""
        return [self._next(item.sequence) if item.samples else None for item in step.items]

    def follow(self, sequences: abc.Sequence[Sequence]) -> list[SampledToken | SequenceError]:
        """Return a further token for each sequence."""
        return [self._next(sequence) for sequence in sequences]

    def release(self, sequence: Sequence) -> None:
        """Forget a sequence that has ended."""
        self._answers.pop(sequence, None)

    def _next(self, sequence: Sequence) -> SampledToken:
        if sequence not in self._answers:
            prompt = self._script.tokenizer.decode(sequence.request.prompt_token_ids, skip_special_tokens=False)
            self._script.prompts.append(prompt)
            self._answers[sequence] = self._script.answer_to(prompt)
        return SampledToken(self._answers[sequence][sequence.num_generated_tokens])


@dataclass(frozen=True)
class Clients:
    """Clients of the gateway and of the service."""

    http: httpx.AsyncClient
    channel: aio.Channel


@asynccontextmanager
async def scripted_product(scripts: dict[str, Script], max_model_len: int = 4096) -> AsyncIterator[Clients]:
    """Run the service and the gateway with a model for each script, by name."""
    telemetry = Telemetry(None, [])
    chosen = settings_of(model=dict.fromkeys(scripts, "nowhere"))
    server = Server(chosen, telemetry)

    async def load(model: ModelSettings, observer: StepObserver) -> ServedGenerator:
        return _served(model.name, scripts[model.name], observer, max_model_len)

    port = await server.start()
    await server.load(chosen.served_models(), load)
    settings = read_settings(GatewaySettings, ["--target", f"127.0.0.1:{port}"])
    gateway_telemetry = GatewayTelemetry(None, [])
    try:
        async with (
            ServiceClient.connect(settings, gateway_telemetry) as client,
            aio.insecure_channel(f"127.0.0.1:{port}") as channel,
        ):
            gateway = build_server(settings, build_app(settings, client, gateway_telemetry, Drain()))
            gateway.config.load()
            gateway.lifespan = gateway.config.lifespan_class(gateway.config)
            listener = socket.create_server(("127.0.0.1", 0))
            await gateway.startup([listener])
            base = f"http://127.0.0.1:{listener.getsockname()[1]}"
            try:
                async with httpx.AsyncClient(base_url=base, timeout=GUARD_S) as http:
                    yield Clients(http, channel)
            finally:
                await gateway.shutdown([listener])
                listener.close()
    finally:
        await server.close()
        telemetry.shutdown()
        gateway_telemetry.shutdown()


def _served(name: str, script: Script, observer: StepObserver, max_model_len: int) -> ServedGenerator:
    tokenizer = script.tokenizer
    eos_token_ids = [token_id(tokenizer, end) for end in script.ends]
    config = config_of(max_model_len=max_model_len, num_blocks=8 * max_model_len // 16)
    core = GeneratorCore(
        ScriptedRunner(script),
        tokenizer,
        config,
        eos_token_ids=eos_token_ids,
        compile_constraint=ConstraintCompiler(tokenizer, control_ids_of(tokenizer), eos_token_ids),
    )
    engine = GeneratorClient(ThreadLink(core), config, vocab_size=tokenizer.vocab_size, observer=observer)
    chat = ChatModel(template_of(script.template), tokenizer)
    preparation = Preparation(name, tokenizer, engine.max_model_len, chat, Workers(WorkerLimits()))
    description = ModelDescription(
        name, tasks=(Task.CHAT, Task.COMPLETION), architecture="Scripted", fingerprint="fp", max_model_len=max_model_len
    )
    return ServedGenerator(
        description, engine, preparation, WatermarkDetector(tokenizer, Watermark()), tokenizer, WEIGHTS, FILES
    )
