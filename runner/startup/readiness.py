"""Wait until the service and the gateway are ready, as seen through Envoy, and list the models."""

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
    def from_settings(cls, settings: Settings) -> EnvoyAddress:
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


async def wait_until_ready(envoy: EnvoyAddress) -> None:
    """Return when Envoy serves REST and gRPC: /readyz returns 200, and gRPC's health check SERVING."""
    while not await asyncio.to_thread(_is_ready, envoy):  # noqa: ASYNC110 another process becomes ready without an event
        await asyncio.sleep(_POLL_S)


def list_models(envoy: EnvoyAddress) -> list[model_pb2.Model]:
    """Return the served models in the order of the settings, or none if the call fails, since it may require a key."""
    try:
        with envoy.channel() as channel:
            stub: Any = model_pb2_grpc.ModelServiceStub(channel)
            return list(stub.ListModels(model_pb2.ListModelsRequest(), timeout=_TIMEOUT_S).models)
    except grpc.RpcError:
        return []


def _is_ready(envoy: EnvoyAddress) -> bool:
    try:
        with (
            urllib.request.urlopen(f"{envoy.url}/readyz", timeout=_TIMEOUT_S, context=envoy.context),  # noqa: S310  the URL is not from a client
            envoy.channel() as channel,
        ):
            health: Any = health_pb2_grpc.HealthStub(channel)  # grpc_health has no type hints
            answer = health.Check(health_pb2.HealthCheckRequest(), timeout=_TIMEOUT_S)
            return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)
    except (OSError, grpc.RpcError):  # urllib's errors are OSErrors
        return False
