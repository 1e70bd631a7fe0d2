"""The interface that the service needs of an engine.

The same whether the engine is a thread of this process or a process of its own; what crosses is plain data.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from service.generation.adapter import AdapterLoaded
from service.generation.embedding import EmbeddingOutput, EmbeddingRequest
from service.generation.output import GenerationOutput
from service.generation.request import GenerationRequest
from service.generation.stats import EngineStats


class StepObserver(Protocol):
    """Is told the engine's state after each step, on the event loop."""

    def on_step(self, stats: EngineStats) -> None:
        """Must return at once."""


class Engine(Protocol):
    """The life of an engine. All methods belong to the event loop that started it."""

    @property
    def max_model_len(self) -> int:
        """Tokens of a prompt and its answer together, or of a text to embed."""

    @property
    def failed(self) -> asyncio.Future[BaseException]:
        """Done, with the reason, when the engine died and is not started again: nothing is served from then on."""

    @property
    def heartbeat_age_s(self) -> float:
        """Seconds since the engine last began a step or, when idle, looked for work: about a second at most then."""

    @property
    def pid(self) -> int | None:
        """The process of the engine's side; None if it is this one, or away."""

    def kill(self) -> None:
        """End the engine's side, which has stalled, if it is a process; then it is started again."""

    @property
    def num_open(self) -> int:
        """Requests whose callers have not left."""

    def stats(self) -> EngineStats:
        """The state after the last step, or after what has come or gone since."""

    def start(self) -> None:
        """Begin to serve, on the running loop."""

    async def check(self) -> None:
        """Raise EngineError if the engine has lost a cache block, or has given one to two."""

    @property
    def is_asleep(self) -> bool:
        """Whether it has given its memory back until it is woken."""

    async def sleep(self, timeout_s: float) -> None:
        """Give weights and cache back. New requests get EngineAsleep, and those that haven't ended by the timeout.

        Raises CannotSleep.
        """

    async def wake(self) -> None:
        """Load again what sleeps. Raises ModelLoadError, and then it sleeps on."""

    async def drain(self, timeout_s: float) -> None:
        """Refuse new requests, wait until all callers have left, then end what is left with EngineClosed."""

    async def close(self) -> None:
        """End all requests and the engine; returns when the step in progress, if any, is done."""


class Outputs(Protocol):
    """What comes of one request or several that were opened together."""

    def __aiter__(self) -> AsyncIterator[GenerationOutput]:
        """Itself."""

    async def __anext__(self) -> GenerationOutput:
        """The next output."""

    @property
    def num_tokens(self) -> int:
        """The tokens of all that was generated so far, read or not."""

    async def begun(self) -> None:
        """Return when something was computed of one of the requests.

        Raises what ended all of them before: EngineOverloaded if they waited for too long.
        """


class Generator(Engine, Protocol):
    """An engine that generates."""

    def refuse_if_busy(
        self, caller_id: str, weight: float, deadline: float | None = None, waited_s: float | None = None
    ) -> None:
        """Raise EngineOverloaded if a request of that key would have to wait too long: before it costs anything.

        `waited_s` is for how long it has waited before anybody looked at it, if that is known.
        """

    async def load_adapter(self, name: str, folder: Path) -> AdapterLoaded:
        """Hold an adapter for requests that name it.

        Raises AdapterRefused or TooManyAdapters, and what keeps any request from being served.
        """

    async def drop_adapter(self, name: str, timeout_s: float) -> None:
        """Forget an adapter once its requests have ended; those that haven't by then end with EngineClosed.

        Nobody may begin a request with it any more.
        """

    def generate(self, *requests: GenerationRequest) -> AbstractAsyncContextManager[Outputs]:
        """Open the stream of all outputs of one request or several; leaving the context ends what is left of them.

        Several requests are admitted all or none, and an error of one ends the stream of all. Entry returns when all
        are admitted, their constraints compiled.

        On entry raises InvalidRequest or a subclass of it, EngineOverloaded, EngineRestarting, EngineClosed,
        EngineFailed or DeadlineExceeded; the last three, and SequenceError, may also be raised by the stream, after its
        last output, and EngineOverloaded before the first.
        """


class Embedder(Engine, Protocol):
    """An engine that makes vectors."""

    def refuse_if_busy(self, caller_id: str, weight: float, least_tokens: int) -> None:
        """Raise EngineOverloaded if a request of that key would have to wait too long: before its texts are read.

        It has `least_tokens` at least.
        """

    async def embed(self, request: EmbeddingRequest) -> EmbeddingOutput:
        """Compute the vectors of all inputs. A caller who is cancelled ends the request.

        Raises InvalidRequest or PromptTooLong, which name the input as `inputs[i]`, EngineOverloaded, EngineRestarting,
        EngineClosed, EngineFailed or DeadlineExceeded.
        """
