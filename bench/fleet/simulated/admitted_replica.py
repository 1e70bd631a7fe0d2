"""One engine on a simulated clock: the product's client with its admission, and its core with its scheduler.

Nothing stands in front of it that could reject a request, as if the service were called without Envoy.
"""

from __future__ import annotations

import heapq
import math
from collections import abc
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from bench.fleet.simulated.null_tokenizer import NullTokenizer
from bench.fleet.simulated.step_model import StepModel
from service.engine.client.generator import GeneratorClient
from service.engine.core.engine_core import SampledToken
from service.engine.core.generator_core import GeneratorCore
from service.engine.core.sequences.sequence import Sequence
from service.engine.core.step import Step
from service.engine.interface.config import EngineConfig
from service.engine.interface.messages import Add, Command, Report
from service.engine.interface.port import Outputs
from service.engine.link.link import Receiver
from service.generation.errors import EngineOverloaded
from service.generation.outputs.output import GenerationOutput
from service.generation.requests.parameters import SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest

_VOCABULARY = 1 << 20


@dataclass(eq=False)
class Chat:
    """One request, with the times of its events in seconds; infinite if they did not happen."""

    arrived: float
    prompt: int
    answer: int
    key: str = ""
    first_token: float = math.inf
    ended: float = math.inf
    rejected: float = math.inf


class _Engine:
    """The core of an engine whose steps take simulated time. A `Link` and a `Runner`."""

    num_replays = 0
    pid = None
    is_suspended = False
    can_relaunch = False

    def __init__(self, model: StepModel, config: EngineConfig, slowdown: abc.Callable[[], float]) -> None:
        self.now = 0.0
        self.newest_serial = -1  # of the requests
        self._model = model
        self._slowdown = slowdown
        self._core = GeneratorCore(self, NullTokenizer(), config, eos_token_ids=(), clock=lambda: self.now)

    @property
    def has_work(self) -> bool:
        """True if any request is unfinished."""
        return self._core.has_work

    def step(self) -> Report:
        """Compute a step, which advances the clock, and return its report."""
        self._core.step()
        return self._core.report()

    def run(self, step: Step) -> list[SampledToken | None]:
        """Advance the clock by the step's time (Runner's interface)."""
        context = sum(len(item.sequence.token_ids) for item in step.items if item.samples and item.num_new_tokens == 1)
        self.now += self._model.seconds(step.num_decodes, step.num_prompt_tokens, context) * self._slowdown()
        return [SampledToken(1) if item.samples else None for item in step.items]

    def follow(self, sequences: abc.Sequence[Sequence]) -> list[SampledToken]:
        """Raise RuntimeError, since there are no drafts (Runner's interface)."""
        raise RuntimeError(f"there are no drafts of {len(sequences)} sequences")

    def release(self, sequence: Sequence) -> None:
        """Do nothing, since no state is kept (Runner's interface)."""

    def start(self, receiver: Receiver) -> None:
        """Report failures of commands to `receiver` (Link's interface)."""
        self._core.open(receiver.on_report)

    def send(self, command: Command) -> None:
        """Handle a command before the next step (Link's interface)."""
        self._core.receive(command)
        if isinstance(command, Add):
            self.newest_serial = command.serial

    def kill(self) -> None:
        """Do nothing, since there is no process (Link's interface)."""

    async def relaunch(self) -> None:
        """Raise RuntimeError, since there is no process (Link's interface)."""
        raise RuntimeError("a simulated engine is not launched again")

    async def stop(self) -> None:
        """Do nothing, since there is no thread (Link's interface)."""


class AdmittedReplica:
    """One replica. It must be used on an event loop, on which it never waits.

    `step_slowdown` multiplies the times of steps; it may be changed between runs.
    """

    def __init__(self, model: StepModel, **settings: Any) -> None:
        """`settings` are those of the engine."""
        table = model.table
        config = EngineConfig(
            num_blocks=table.num_blocks,
            block_size=table.block_size,
            max_model_len=min(table.num_blocks * table.block_size, 32_768),
            prefix_caching=False,
            speculation=False,
            **settings,
        )
        self.step_slowdown = 1.0
        self.now = 0.0
        self._engine = _Engine(model, config, lambda: self.step_slowdown)
        self.client = GeneratorClient(self._engine, config, vocab_size=_VOCABULARY, clock=lambda: self.now)
        self.client.start()
        self._open: dict[int, tuple[Chat, AbstractAsyncContextManager[Outputs]]] = {}  # by serial

    async def run(self, chats: abc.Iterable[Chat], then: abc.Callable[[Chat], Chat | None] | None = None) -> None:
        """Serve chats until all are answered or rejected; `then` may return the next chat of a caller.

        The chats' times count from now.
        """
        began = self.now
        queue = [(began + chat.arrived, index, chat) for index, chat in enumerate(chats)]
        heapq.heapify(queue)
        num_chats = len(queue)

        def follow(chat: Chat) -> None:
            nonlocal num_chats
            if then is not None and (following := then(chat)) is not None:
                num_chats += 1
                heapq.heappush(queue, (following.arrived, num_chats, following))

        while queue or self._open:
            if not self._open:
                self.now = max(self.now, queue[0][0])
            report, until = None, self.now
            if self._engine.has_work:
                self._engine.now = self.now
                report = self._engine.step()
                until = self._engine.now
            while queue and queue[0][0] <= until:
                at, _, chat = heapq.heappop(queue)
                self.now = chat.arrived = at
                if not await self._admit(chat):
                    follow(chat)
            self.now = until
            if report is not None:
                self.client.on_report(report)
                for chat in await self._collect(report):
                    follow(chat)

    async def _admit(self, chat: Chat) -> bool:
        """Open a request, as the service does. Return False if it is rejected."""
        request = GenerationRequest(
            "", [1] * chat.prompt, SamplingParams(), StopParams(max_tokens=chat.answer, ignore_eos=True),
            caller_id=chat.key,
        )  # fmt: skip
        try:
            self.client.reject_if_overloaded(chat.key, 1.0)
            stream = self.client.generate(request)
            await stream.__aenter__()
        except EngineOverloaded:
            chat.rejected = self.now
            return False
        self._open[self._engine.newest_serial] = chat, stream
        return True

    async def _collect(self, report: Report) -> list[Chat]:
        """Record the times of outputs; return the chats that have ended."""
        ended = []
        for serial, output in report.outputs:
            assert isinstance(output, GenerationOutput)  # noqa: S101  a generator's engine emits nothing else
            chat, stream = self._open[serial]
            chat.first_token = min(chat.first_token, self.now)
            if output.finish_reason is not None:
                chat.ended = self.now
                del self._open[serial]
                await stream.__aexit__(None, None, None)
                ended.append(chat)
        return ended
