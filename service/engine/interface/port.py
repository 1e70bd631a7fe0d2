"""The interface of an engine to the service.

It is the same for an engine on a thread of this process and in a worker process; only plain data is exchanged.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from service.engine.interface.cache_events import CacheBatch
from service.engine.interface.in_flight_limit import InFlightLimit
from service.generation.adapter import AdapterLoaded
from service.generation.outputs.output import GenerationOutput, PrefillProgress
from service.generation.requests.embedding import EmbeddingOutput, EmbeddingRequest
from service.generation.requests.request import GenerationRequest
from service.generation.stats import EngineStats


class StepObserver(Protocol):
    """Observes the engine's state after each step, on the event loop."""

    def on_step(self, stats: EngineStats) -> None:
        """Handle the state after a step. It must return immediately."""


class Engine(Protocol):
    """The lifecycle of an engine. All methods must be called on the event loop that started it."""

    @property
    def max_model_len(self) -> int:
        """The maximum tokens of a prompt and its answer together, or of a text to embed."""

    @property
    def failed(self) -> asyncio.Future[BaseException]:
        """A future that is done, with the reason, when the engine has died and is not restarted."""

    @property
    def heartbeat_age_s(self) -> float:
        """Seconds since the engine last began a step or, when idle, sent a heartbeat, which it does every second."""

    @property
    def is_suspended(self) -> bool:
        """True if a signal such as SIGSTOP has stopped the core's process."""

    @property
    def pid(self) -> int | None:
        """The core's process id, or None if the core runs in this process or its process is down."""

    def kill(self) -> None:
        """Kill the process of a stalled core, if it has one; it is restarted."""

    @property
    def num_open(self) -> int:
        """The number of requests and calls whose callers have not left."""

    def stats(self) -> EngineStats:
        """Return the state after the last step, updated by later arrivals and ends."""

    def start(self) -> None:
        """Start to serve on the running loop."""

    async def check(self) -> None:
        """Raise EngineError if a cache block is lost or has two owners."""

    @property
    def is_asleep(self) -> bool:
        """True if the engine has freed its memory until `wake`."""

    async def sleep(self, timeout_s: float) -> None:
        """Free weights and cache. New requests, and those that have not ended by the timeout, get EngineAsleep.

        Raise CannotSleep if the engine does not support it.
        """

    async def wake(self) -> None:
        """Load the model again after `sleep`. Raise ModelLoadError if that fails; the engine then stays asleep."""

    async def drain(self, timeout_s: float) -> None:
        """Reject new requests, wait for open ones until the timeout, then end the remaining ones with EngineClosed."""

    async def close(self) -> None:
        """End all requests and the engine. Return when the step in progress, if any, is done."""


class Outputs(Protocol):
    """The outputs of one request, or of several that were opened together."""

    def __aiter__(self) -> AsyncIterator[GenerationOutput]:
        """Return this object."""

    async def __anext__(self) -> GenerationOutput:
        """Return the next output."""

    def with_progress(self) -> AsyncIterator[GenerationOutput | PrefillProgress]:
        """Return an iterator over the outputs and the progress of the prompts, if the requests ask for it.

        The progress of a prompt precedes its first output. Progress that is not read is replaced by the newest one.
        """

    @property
    def num_tokens(self) -> int:
        """The number of tokens generated so far, including those not read yet."""

    async def until_started(self) -> None:
        """Return when the computation of one of the requests has begun.

        Raise the error that ended all of them before that.
        """


class CacheEvents(Protocol):
    """The events of an engine's prefix cache."""

    def subscribe(self, caller_id: str, number: int) -> AsyncGenerator[CacheBatch, None]:
        """Yield the batches of a caller from `number` on; with 0, a snapshot and all later batches.

        Raise CacheEventsLost if batches in between are gone, EngineOverloaded if there are too many subscriptions, and
        EngineClosed at the engine's end.
        """


class Generator(Engine, Protocol):
    """An engine that generates."""

    @property
    def cache_watch(self) -> CacheEvents:
        """The events of its prefix cache."""

    def reject_if_overloaded(
        self, caller_id: str, weight: float, deadline: float | None = None, waited_s: float | None = None
    ) -> None:
        """Raise EngineOverloaded if a request of `caller_id` would be queued for too long. Call it before any work.

        `waited_s` is the time that the request has waited before it reached the service, if known.
        """

    def in_flight_limit(self) -> InFlightLimit | None:
        """Return the number of requests that may be in flight, or None if no answer was measured yet."""

    async def load_adapter(self, name: str, folder: Path) -> AdapterLoaded:
        """Load an adapter for requests that name it.

        Raise AdapterRejected or TooManyAdapters, or an error of an engine that cannot serve.
        """

    def add_unloaded_adapter(self, name: str, folder: Path, digest: str) -> None:
        """Add an adapter to an engine that sleeps: its wake loads it, unless its digest is another one then.

        Raise AdapterRejected or TooManyAdapters.
        """

    async def drop_adapter(self, name: str, timeout_s: float) -> None:
        """Unload an adapter after its requests have ended. Those still open at the timeout end with EngineClosed.

        The caller must not start requests with the adapter any more.
        """

    def generate(self, *requests: GenerationRequest) -> AbstractAsyncContextManager[Outputs]:
        """Open the stream of outputs of one or more requests. Leaving the context ends unfinished requests.

        Several requests are admitted together or not at all, and an error of one ends the stream of all. Entering the
        context returns when all are admitted and their constraints compiled.

        Entering the context raises InvalidRequest or a subclass, EngineOverloaded, EngineRestarting, EngineClosed,
        EngineFailed or DeadlineExceeded. The stream raises the last three and SequenceError after its last output.
        """


class Embedder(Engine, Protocol):
    """An engine that computes embeddings."""

    def reject_if_overloaded(self, caller_id: str, weight: float, least_tokens: int) -> None:
        """Raise EngineOverloaded if a request of `caller_id` would be queued for too long. Call it before tokenization.

        The request has at least `least_tokens` tokens.
        """

    async def embed(self, request: EmbeddingRequest) -> EmbeddingOutput:
        """Compute the vectors of all inputs. Cancelling the call ends the request.

        Raise InvalidRequest or PromptTooLong, which name the input as `inputs[i]`, EngineOverloaded, EngineRestarting,
        EngineClosed, EngineFailed or DeadlineExceeded.
        """
