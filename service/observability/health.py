"""The service's phase, and its status in grpc.health.v1.

Not thread-safe: used on the event loop. The server decides when a phase begins.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Iterable, Mapping

from grpc_health.v1 import health_pb2
from grpc_health.v1.health import aio as grpc_health

OVERALL = ""  # the whole server's name in grpc.health.v1
LIVE = "live"  # SERVING unless the process must be restarted
STORE = "store"  # SERVING while the shared stores can be reached, or none is configured
MODEL = "model/"  # prefix of a model's name
STARTED = "startup"  # SERVING once all models have been loaded


class ServingPhase(enum.Enum):
    """The phases of the process, in order; no phase is entered twice."""

    STARTING = "starting"  # models are being loaded; calls are rejected
    SERVING = "serving"
    LEAVING = "leaving"  # health is NOT_SERVING, so that load balancers use other replicas; calls are served
    DRAINING = "draining"  # new calls are rejected, running ones continue
    FAILED = "failed"  # an engine died


class Health:
    """The phase, and the health statuses that follow from it: SERVING in that phase unless an engine stalls.

    `live` and `startup` have separate statuses, because supervisors would otherwise kill a process that is starting or
    draining. `model/NAME` is NOT_SERVING if that model could not be loaded or has been unloaded.
    """

    def __init__(self, services: Iterable[str]) -> None:
        self.servicer = grpc_health.HealthServicer()
        self._services = (OVERALL, *services)
        self._phase = ServingPhase.STARTING
        self._has_started = False
        self._stalled = False
        self._lost: set[str] = set()  # names of shared stores
        self._models: dict[str, bool] = {}  # whether each was loaded
        self._drains = asyncio.Event()

    @property
    def phase(self) -> ServingPhase:
        return self._phase

    @property
    def is_serving(self) -> bool:
        """Whether requests are accepted, and engines make progress."""
        return self._phase is ServingPhase.SERVING and not self._stalled

    async def until_draining(self) -> None:
        """Return when new calls are rejected, because the process is shutting down."""
        await self._drains.wait()

    async def enter(self, phase: ServingPhase) -> None:
        """Enter `phase` and notify all watchers."""
        self._phase = phase
        if phase is ServingPhase.DRAINING:
            self._drains.set()
        self._has_started = self._has_started or phase is ServingPhase.SERVING
        await self._publish()

    async def set_stalled(self, stalled: bool) -> None:  # noqa: FBT001  the one value of a setter
        """Set whether an engine makes no progress: it has work and doesn't step, or its process is suspended."""
        if stalled != self._stalled:
            self._stalled = stalled
            await self._publish()

    async def set_store_lost(self, name: str, lost: bool) -> None:  # noqa: FBT001  the one value of a setter
        """Set whether the shared store `name` can't be reached. The service continues with its last known content."""
        (self._lost.add if lost else self._lost.discard)(name)
        await self._publish()

    async def set_models(self, models: Mapping[str, bool]) -> None:
        """Set which models are configured, and whether each was loaded."""
        models = dict.fromkeys(self._models, False) | dict(models)  # including unloaded models
        if models != self._models:
            self._models = models
            await self._publish()

    async def _publish(self) -> None:
        """Set the status of every service to its present state."""
        found = dict.fromkeys(self._services, self.is_serving)
        found |= {f"{MODEL}{name}": self.is_serving and loaded for name, loaded in self._models.items()}
        found |= {LIVE: self._phase is not ServingPhase.FAILED, STARTED: self._has_started, STORE: not self._lost}
        for service, is_well in found.items():
            status = health_pb2.HealthCheckResponse.SERVING if is_well else health_pb2.HealthCheckResponse.NOT_SERVING
            await self.servicer.set(service, status)
