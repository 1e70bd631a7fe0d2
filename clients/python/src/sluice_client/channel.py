"""The connection to the server: channel options, credentials and the metadata of each call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import grpc

from sluice_client.affinity import affinity_key

try:
    from opentelemetry.propagate import inject
except ImportError:  # without OpenTelemetry there is no trace to propagate

    def inject(carrier: dict[str, str]) -> None:  # type: ignore[misc]  # as the package's own is called here
        """Add nothing, since OpenTelemetry is not installed."""


SERVICE_CONFIG: Final = resources.files("sluice_client").joinpath("service_config.json").read_text()

AFFINITY: Final = "x-sluice-affinity"

_MAX_ROUTING_LENGTH: Final = 256
_OPTIONS: Final[tuple[tuple[str, Any], ...]] = (
    ("grpc.service_config", SERVICE_CONFIG),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),  # a long prompt takes time without an event
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.max_send_message_length", -1),  # the server enforces its own limits
    ("grpc.max_receive_message_length", -1),
)

_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS to the server. Files are in PEM; without `authorities` the system's certificate authorities are used."""

    authorities: Path | str | None = None
    certificate: Path | str | None = None  # of this client, for a server that requires one
    key: Path | str | None = None
    server_name: str | None = None  # the name in the server's certificate, if it differs from the target

    def credentials(self) -> grpc.ChannelCredentials:
        """Return the credentials for gRPC."""
        files = (self.authorities, self.key, self.certificate)
        return grpc.ssl_channel_credentials(*(None if each is None else Path(each).read_bytes() for each in files))


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that all calls of a client share."""

    target: str
    key: str | None = None
    model: str | None = None
    timeout: float = 600.0  # seconds that a call may take, including retries and resumptions
    resume_timeout: float = 30.0  # seconds for which a broken stream is resumed; 0 disables resumption
    wait_for_ready: bool = False
    tls: Tls | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_address(cls, address: str, **others: Any) -> Settings:
        """Return the settings for an address: a gRPC target, or a URL whose scheme selects TLS."""
        scheme, found, authority = address.rpartition("://")
        if not found or scheme not in _PORTS:
            return cls(address, **others)
        if (others.get("tls") is not None) != (scheme == "https"):
            if scheme == "http":
                raise ValueError(f"{address} means plain text, but tls is set; remove the scheme or tls")
            others["tls"] = Tls()
        host = authority.rstrip("/")
        if set(host) & {"/", "?", "#", "@"}:
            raise ValueError(f"{address} must be SCHEME://HOST[:PORT]; gRPC can't use other parts of a URL")
        return cls(host if _has_port(host) else f"{host}:{_PORTS[scheme]}", **others)

    def options(self) -> list[tuple[str, Any]]:
        """Return the channel's options."""
        tls_options = (
            [("grpc.ssl_target_name_override", self.tls.server_name)] if self.tls and self.tls.server_name else []
        )
        return [*_OPTIONS, *tls_options]

    def credentials(self) -> grpc.ChannelCredentials | None:
        """Return the channel's credentials; None without TLS."""
        return None if self.tls is None else self.tls.credentials()

    def call_metadata(self, request: Any) -> list[tuple[str, str]]:
        """Return one call's metadata: the key, the trace, and the headers by which proxies route the call."""
        carrier: dict[str, str] = {}
        inject(carrier)
        metadata = [*carrier.items(), *self.metadata.items()]
        if self.key is not None:
            metadata.append(("authorization", f"Bearer {self.key}"))
        if model := getattr(request, "model", ""):
            metadata.append(("x-sluice-model", quote(model[:_MAX_ROUTING_LENGTH], safe="")))
        authorization = next((value for name, value in metadata if name == "authorization"), None)
        if AFFINITY not in self.metadata and (affinity := affinity_key(request, authorization)):
            metadata.append((AFFINITY, affinity))
        return metadata


def _has_port(host: str) -> bool:
    return host.rpartition(":")[2].isdigit() and not host.endswith("]")
