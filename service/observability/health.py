"""The service's phase, and its status for grpc.health.v1.

Owns the phase and the health servicer. Only the loop's thread may call it. It doesn't know why a phase begins: the
server tells it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping

from grpc_health.v1 import health_pb2
from grpc_health.v1.health import aio as grpc_health

OVERALL = ""  # the name under which grpc.health.v1 has the server as a whole
LIVE = "live"  # SERVING unless only a new process can help
STORE = "store"  # SERVING while what replicas share can be reached, or nothing is shared
MODEL = "model/"  # before a model's name
STARTED = "startup"  # SERVING once all models have been loaded


class ServingPhase(enum.Enum):
    """Where the process is in its life. It only moves downwards."""

    STARTING = "starting"  # models are being loaded; calls are refused
    SERVING = "serving"
    LEAVING = "leaving"  # health says NOT_SERVING so that balancers look elsewhere; calls are still served
    DRAINING = "draining"  # new calls are refused, running ones go on
    FAILED = "failed"  # an engine died


class Health:
    """The phase, with grpc.health.v1 kept in step: SERVING in that phase while no engine stalls, else NOT_SERVING.

    `live` and `startup` are names of their own there, for who would end a process that is merely starting or leaving,
    and so is `model/NAME`, which is NOT_SERVING where that model could not be loaded or is served no more.
    """

    def __init__(self, services: Iterable[str]) -> None:
        self.servicer = grpc_health.HealthServicer()
        self._services = (OVERALL, *services)
        self._phase = ServingPhase.STARTING
        self._has_started = False
        self._stalled = False
        self._lost: set[str] = set()  # of what replicas share
        self._models: dict[str, bool] = {}  # whether each was loaded

    @property
    def phase(self) -> ServingPhase:
        return self._phase

    async def enter(self, phase: ServingPhase) -> None:
        """Begin `phase` and tell all watchers."""
        self._phase = phase
        self._has_started = self._has_started or phase is ServingPhase.SERVING
        await self._publish()

    async def set_stalled(self, stalled: bool) -> None:  # noqa: FBT001  the one value of a setter
        """Note whether an engine has work and doesn't move."""
        if stalled != self._stalled:
            self._stalled = stalled
            await self._publish()

    async def set_store_lost(self, what: str, lost: bool) -> None:  # noqa: FBT001  the one value of a setter
        """Note whether `what` of the things that replicas share can't be reached. What was known is still served."""
        (self._lost.add if lost else self._lost.discard)(what)
        await self._publish()

    async def set_models(self, models: Mapping[str, bool]) -> None:
        """Note which models there are, and whether each was loaded."""
        models = dict.fromkeys(self._models, False) | dict(models)  # those that are gone are known, too
        if models != self._models:
            self._models = models
            await self._publish()

    async def _publish(self) -> None:
        is_serving = self._phase is ServingPhase.SERVING and not self._stalled
        found = dict.fromkeys(self._services, is_serving)
        found |= {f"{MODEL}{name}": is_serving and loaded for name, loaded in self._models.items()}
        found |= {LIVE: self._phase is not ServingPhase.FAILED, STARTED: self._has_started, STORE: not self._lost}
        for service, is_well in found.items():
            status = health_pb2.HealthCheckResponse.SERVING if is_well else health_pb2.HealthCheckResponse.NOT_SERVING
            await self.servicer.set(service, status)
