"""Started engines with scripted cores, for the tests of their clients."""

from __future__ import annotations

import time
from collections import abc
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias

from service.engine.client.embedder import EmbedderClient
from service.engine.client.generator import MAX_COMPILE_WAIT_S, GeneratorClient
from service.engine.core.compilation import MAX_COMPILE_S
from service.engine.interface.config import EngineConfig
from service.engine.interface.port import StepObserver
from service.engine.link.engine_spec import EngineSpec
from service.engine.link.link import Link
from service.engine.link.process_link import ProcessLink
from service.engine.link.restarts import Restarts
from service.engine.link.thread_link import ThreadLink
from service.engine.link.worker.wire import NO_SERIAL
from service.generation.outputs.output import GenerationOutput
from service.generation.requests.request import GenerationRequest
from tests.engine.byte_tokenizer import ByteTokenizer
from tests.engine.fakes import config_of, read, until
from tests.engine.link.mark import Mark
from tests.engine.scripted import Script

Kind: TypeAlias = Literal["thread", "process"]
# An answer without max_tokens does not end during a test.
ENDLESS: dict[str, Any] = {"num_blocks": 10_000, "max_model_len": 40_000}


class Starter:
    """Starts engines with one kind of link, each with a script in a folder of its own."""

    def __init__(self, kind: Kind, folder: Path) -> None:
        self.kind = kind
        self.folder = folder
        self.num_started = 0
        self._last_link: Link | None = None

    def link(self, engine_spec: EngineSpec, **options: Any) -> Link:
        """Return a link, ready to start, to the core of the specification."""
        if self.kind == "thread":
            options.pop("restarts", None)
            self._last_link = ThreadLink(engine_spec.make().core, **options)
        else:
            self._last_link = launched = ProcessLink(engine_spec, **options)
            launched.launch()
        return self._last_link

    async def settle(self) -> None:
        """Wait until the commands that were sent to the engine started last have reached its core's process."""
        link = self._last_link
        if isinstance(link, ProcessLink):
            mark = Mark(NO_SERIAL, self.folder / "mark")
            mark.path.unlink(missing_ok=True)
            link.send(mark)
            await until(mark.path.exists)

    def script(self) -> Script:
        """Return a script for the next engine."""
        self.num_started += 1
        return Script(self.folder / f"{self.num_started}")

    def generator(
        self,
        *texts: str,
        ends: bool = True,
        observer: StepObserver | None = None,
        clock: abc.Callable[[], float] = time.monotonic,
        max_compile_s: float = MAX_COMPILE_S,
        max_compile_wait_s: float = MAX_COMPILE_WAIT_S,
        link: abc.Mapping[str, Any] | None = None,
        **sizes: Any,
    ) -> tuple[GeneratorClient, Script]:
        """Return an engine that is not started.

        Choice i generates text i, or the tokens of `sum_rule` without texts.
        """
        script = self.script()
        arguments = {
            "folder": script.folder,
            "texts": texts,
            "ends": ends,
            "sizes": sizes,
            "max_compile_s": max_compile_s,
            "clock": clock,
        }
        engine = GeneratorClient(
            self.link(EngineSpec("tests.engine.scripted:generator", arguments), **(link or {})),
            config_of(**sizes),
            vocab_size=ByteTokenizer.vocab_size,
            max_compile_wait_s=max_compile_wait_s,
            observer=observer,
            clock=clock,
        )
        return engine, script

    @asynccontextmanager
    async def started(self, *texts: str, **options: Any) -> abc.AsyncIterator[tuple[GeneratorClient, Script]]:
        """Run an engine. At the end it must be idle with every block free, or have failed."""
        engine, script = self.generator(*texts, **options)
        async with engine:
            try:
                yield engine, script
            finally:
                script.open_gate()
                script.resume_compiling()
            if not engine.failed.done() and not engine.is_restarting:
                await until(lambda: is_idle(engine))
                await engine.check()

    def embedder(
        self, *, observer: StepObserver | None = None, link: abc.Mapping[str, Any] | None = None, **sizes: Any
    ) -> tuple[EmbedderClient, Script]:
        """Return an encoder that is not started."""
        script = self.script()
        config = EngineConfig(**{"max_model_len": 16, **sizes})
        arguments = {"folder": script.folder, "max_batch_tokens": config.max_batch_tokens}
        engine = EmbedderClient(
            self.link(EngineSpec("tests.engine.scripted:encoder", arguments), **(link or {})),
            config,
            vocab_size=ByteTokenizer.vocab_size,
            observer=observer,
        )
        return engine, script

    @asynccontextmanager
    async def started_embedder(self, **options: Any) -> abc.AsyncIterator[tuple[EmbedderClient, Script]]:
        """Run an encoder."""
        engine, script = self.embedder(**options)
        async with engine:
            try:
                yield engine, script
            finally:
                script.open_gate()


QUICK = Restarts(first_delay_s=0.01, max_delay_s=0.02)
NEVER = Restarts(max_deaths=1)


def is_idle(engine: GeneratorClient) -> bool:
    stats = engine.stats()
    return (stats.num_running, stats.num_waiting, stats.num_free_blocks) == (0, 0, stats.num_blocks)


async def generate(engine: GeneratorClient, wanted: GenerationRequest) -> list[GenerationOutput]:
    async with engine.generate(wanted) as stream:
        return await read(stream)


def tokens(outputs: list[GenerationOutput], choice_index: int = 0) -> list[int]:
    return [i for output in outputs if output.choice_index == choice_index for i in output.token_ids]
