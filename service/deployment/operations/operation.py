"""An operation: its state, its progress and its end."""

from __future__ import annotations

import asyncio
import enum
import time
import uuid
from dataclasses import dataclass, field

from service.engine.interface.running_load import LoadedBytes, RunningLoad


class OperationKind(enum.Enum):
    """What an operation does."""

    LOAD = "load"
    WAKE = "wake"


class OperationState(enum.Enum):
    """Whether an operation has ended, and how."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class LoadPhase(enum.Enum):
    """The phase of a load."""

    QUEUED = "queued"  # earlier changes are being applied
    PREPARING = "preparing"
    READING = "reading"
    FINISHING = "finishing"
    PUBLISHING = "publishing"  # to the other replicas


@dataclass(frozen=True, slots=True)
class OperationError:
    """Why an operation failed, as clients see it."""

    reason: int  # an ErrorReason of the contract
    message: str
    field: str = ""  # of the request, if it is invalid


@dataclass(slots=True, eq=False)
class Operation:
    """One operation of a caller. It is created, changed and read on the event loop."""

    owner: str  # the caller's id
    kind: OperationKind
    model: str
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    state: OperationState = OperationState.RUNNING
    phase: LoadPhase = LoadPhase.QUEUED
    loaded: LoadedBytes = LoadedBytes(0, 0)  # noqa: RUF009  it is immutable
    error: OperationError | None = None  # of FAILED
    created_ns: int = field(default_factory=time.time_ns)
    ended_ns: int = 0
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    load: RunningLoad = field(init=False)

    def __post_init__(self) -> None:
        loop = asyncio.get_running_loop()

        def report(loaded: LoadedBytes) -> None:
            loop.call_soon_threadsafe(self._set_loaded, loaded)

        self.load = RunningLoad(report)

    def set_begun(self) -> None:
        """Record that earlier changes are applied."""
        self.phase = LoadPhase.PREPARING

    def set_applied(self) -> None:
        """Record that the model is loaded on this replica."""
        self.phase = LoadPhase.PUBLISHING

    def end(self, state: OperationState, error: OperationError | None = None) -> None:
        """Record the end."""
        self.state, self.error, self.ended_ns = state, error, time.time_ns()
        self.ended.set()

    def _set_loaded(self, loaded: LoadedBytes) -> None:
        """Record the bytes of weights that were read."""
        self.loaded = loaded
        self.phase = LoadPhase.FINISHING if loaded.is_complete else LoadPhase.READING
