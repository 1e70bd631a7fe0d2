"""Wait until the service and the gateway are ready, as seen through Envoy, and list the models.

Clients of a public listener with the operator's own certificate may need a certificate that the runner doesn't have.
The runner then calls gateway and service directly, and reads from Envoy's admin interface whether both are healthy.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import urllib.request
from dataclasses import dataclass
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from sluice.v1 import model_pb2, model_pb2_grpc

from process.network.address import host_port
from runner.proxy.admin import EnvoyAdmin
from runner.settings import Settings

_TIMEOUT_S: Final = 2.0
_POLL_S: Final = 0.1
_UPSTREAMS: Final = {"gateway", "service"}
_UNHEALTHY: Final = {"failed_active_health_check", "pending_active_hc"}


@dataclass(frozen=True, slots=True)
class ServingAddresses:
    """The addresses, host:port, that the runner checks at the start: Envoy's, unless `admin` is set."""

    rest_address: str
    grpc_address: str
    context: ssl.SSLContext | None = None  # None without TLS
    credentials: grpc.ChannelCredentials | None = None  # None without TLS
    admin: EnvoyAdmin | None = None  # Envoy's admin interface, if the others are those of gateway and service

    @classmethod
    def from_settings(cls, settings: Settings, admin: EnvoyAdmin) -> ServingAddresses:
        """Return the addresses of a run, with its Envoy's admin interface."""
        envoy, tls = host_port(settings.host, settings.envoy_port), settings.development_tls()
        if tls is None:
            return cls(envoy, envoy)
        context, credentials = tls.client_ssl_context(), grpc.ssl_channel_credentials(*tls.client_pems())
        if settings.public_tls() is None:
            return cls(envoy, envoy, context, credentials)
        gateway = host_port(settings.host, settings.gateway_port)
        service = host_port(settings.host, settings.service_port)
        return cls(gateway, service, context, credentials, admin)

    @property
    def url(self) -> str:
        """The base URL of the REST APIs."""
        return f"{'http' if self.context is None else 'https'}://{self.rest_address}"

    def channel(self) -> grpc.Channel:
        """Return a new gRPC channel."""
        if self.credentials is None:
            return grpc.insecure_channel(self.grpc_address)
        return grpc.secure_channel(self.grpc_address, self.credentials)


async def wait_until_ready(serving: ServingAddresses) -> None:
    """Return when REST and gRPC are served: `/readyz` returns 200, and gRPC's health check returns SERVING.

    Both are called through Envoy. With `serving.admin`, gateway and service are called directly, and Envoy's admin
    interface must report both as healthy.
    """
    while not await asyncio.to_thread(_is_ready, serving):  # noqa: ASYNC110 another process becomes ready without an event
        await asyncio.sleep(_POLL_S)


def list_models(serving: ServingAddresses) -> list[model_pb2.Model]:
    """Return the served models in the order of the settings, or none if the call fails, since it may require a key."""
    try:
        with serving.channel() as channel:
            stub: Any = model_pb2_grpc.ModelServiceStub(channel)
            return list(stub.ListModels(model_pb2.ListModelsRequest(), timeout=_TIMEOUT_S).models)
    except grpc.RpcError:
        return []


def _is_ready(serving: ServingAddresses) -> bool:
    """Return whether REST and gRPC are served, and with `serving.admin` whether Envoy's upstreams are healthy."""
    try:
        with (
            urllib.request.urlopen(f"{serving.url}/readyz", timeout=_TIMEOUT_S, context=serving.context),  # noqa: S310  the URL is not from a client
            serving.channel() as channel,
        ):
            health: Any = health_pb2_grpc.HealthStub(channel)  # grpc_health has no type hints
            answer = health.Check(health_pb2.HealthCheckRequest(), timeout=_TIMEOUT_S)
            is_serving = bool(answer.status == health_pb2.HealthCheckResponse.SERVING)
        return is_serving and (serving.admin is None or _has_healthy_hosts(serving.admin))
    except (OSError, grpc.RpcError):  # urllib's errors are OSErrors
        return False


def _has_healthy_hosts(admin: EnvoyAdmin) -> bool:
    """Return whether Envoy serves and has found all its upstreams healthy. Raise OSError if it doesn't respond."""
    admin.open("/ready").close()  # an error status is an OSError
    with admin.open("/clusters?format=json") as answer:
        clusters = json.load(answer)["cluster_statuses"]
    hosts = [host for cluster in clusters if cluster["name"] in _UPSTREAMS for host in cluster["host_statuses"]]
    return all(_UNHEALTHY.isdisjoint(host.get("health_status", {})) for host in hosts)
