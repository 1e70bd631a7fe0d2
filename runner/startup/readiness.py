"""Check through Envoy whether a run is ready, and list its models."""

from __future__ import annotations

import asyncio
import ssl
import urllib.request
from dataclasses import dataclass
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from sluice.v1 import model_pb2, model_pb2_grpc

from process.network.address import host_port
from runner.settings import Settings

_TIMEOUT_S: Final = 2.0
_POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class EnvoyAddress:
    """The address of Envoy. `context` and `credentials` are for TLS, and None without TLS."""

    address: str  # host:port
    context: ssl.SSLContext | None = None
    credentials: grpc.ChannelCredentials | None = None

    @classmethod
    def of(cls, settings: Settings) -> EnvoyAddress:
        """Return the address of the run's Envoy."""
        address, tls = host_port(settings.host, settings.envoy_port), settings.development_tls()
        if tls is None:
            return cls(address)
        return cls(address, tls.client_ssl_context(), grpc.ssl_channel_credentials(*tls.client_pems()))

    @property
    def url(self) -> str:
        """The base URL of the REST APIs."""
        return f"{'http' if self.context is None else 'https'}://{self.address}"

    def channel(self) -> grpc.Channel:
        """Return a new gRPC channel."""
        if self.credentials is None:
            return grpc.insecure_channel(self.address)
        return grpc.secure_channel(self.address, self.credentials)


async def until_ready(front: EnvoyAddress) -> None:
    """Return when Envoy serves REST and gRPC: /readyz responds 200 and gRPC's health check SERVING."""
    while not await asyncio.to_thread(_ready, front):  # noqa: ASYNC110 another process becomes ready without an event
        await asyncio.sleep(_POLL_S)


def models_of(front: EnvoyAddress) -> list[model_pb2.Model]:
    """Return the served models, in the order of the settings; empty if only API keys may list them."""
    try:
        with front.channel() as channel:
            stub: Any = model_pb2_grpc.ModelServiceStub(channel)
            return list(stub.ListModels(model_pb2.ListModelsRequest(), timeout=_TIMEOUT_S).models)
    except grpc.RpcError:
        return []


def _ready(front: EnvoyAddress) -> bool:
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
