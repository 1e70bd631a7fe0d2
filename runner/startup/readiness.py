"""Check through Envoy whether a run serves, and which models."""

from __future__ import annotations

import asyncio
import ssl
import urllib.request
from dataclasses import dataclass
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from sluice.v1 import model_pb2, model_pb2_grpc

from runner.settings import Settings

_TIMEOUT_S: Final = 2.0
_POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class FrontAddress:
    """How callers reach Envoy. `context` and `credentials` are for TLS, None without."""

    address: str  # host:port
    context: ssl.SSLContext | None = None
    credentials: grpc.ChannelCredentials | None = None

    @classmethod
    def of(cls, settings: Settings) -> FrontAddress:
        """Where the run's own Envoy is."""
        address, tls = f"{settings.host}:{settings.envoy_port}", settings.development_tls()
        if tls is None:
            return cls(address)
        return cls(address, tls.caller_context(), grpc.ssl_channel_credentials(*tls.caller_pems()))

    @property
    def url(self) -> str:
        """The base URL."""
        return f"{'http' if self.context is None else 'https'}://{self.address}"

    def channel(self) -> grpc.Channel:
        """A new channel."""
        if self.credentials is None:
            return grpc.insecure_channel(self.address)
        return grpc.secure_channel(self.address, self.credentials)


async def until_ready(front: FrontAddress) -> None:
    """Return when Envoy serves REST and gRPC: /readyz answers 200 and gRPC's health check SERVING."""
    while not await asyncio.to_thread(_ready, front):  # noqa: ASYNC110 another process becomes ready, which sends no event
        await asyncio.sleep(_POLL_S)


def models_of(front: FrontAddress) -> list[model_pb2.Model]:
    """What is served, in the order of the settings; nothing if only who has a key may know."""
    try:
        with front.channel() as channel:
            stub: Any = model_pb2_grpc.ModelServiceStub(channel)
            return list(stub.ListModels(model_pb2.ListModelsRequest(), timeout=_TIMEOUT_S).models)
    except grpc.RpcError:
        return []


def _ready(front: FrontAddress) -> bool:
    try:
        with (
            urllib.request.urlopen(f"{front.url}/readyz", timeout=_TIMEOUT_S, context=front.context),  # noqa: S310 ours
            front.channel() as channel,
        ):
            health: Any = health_pb2_grpc.HealthStub(channel)  # it ships no types
            answer = health.Check(health_pb2.HealthCheckRequest(), timeout=_TIMEOUT_S)
            return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)
    except (OSError, grpc.RpcError):  # urllib's errors are OSErrors
        return False
