"""The service's listener: port, certificates, and gRPC's connection settings."""

from __future__ import annotations

import socket
from typing import Any

import grpc
from grpc import aio

from process.network.address import host_port
from process.network.tls import CertificateFiles, TlsError, server_files
from service.settings.config import Settings

MAX_UNREQUESTED_S = 5  # calls that the event loop has not taken up by then are ended instead of served late
MIN_PING_INTERVAL_S = 1.0  # a client that pings more often without receiving data is disconnected

_MAX_METADATA_BYTES = 24 << 10


class StartError(Exception):
    """The service can't start; the text is one line with the reason."""


def listen(server: aio.Server, settings: Settings) -> int:
    """Listen on the configured address, and return the port. Raise StartError."""
    host, port = settings.host, settings.port
    address = host_port(host, port)
    try:
        files = server_files(settings.tls)
        if files is None:
            return server.add_insecure_port(address)
        return server.add_secure_port(address, _credentials(files))
    except TlsError as error:
        raise StartError(str(error)) from error
    except RuntimeError as error:
        raise StartError(f"can't listen on {address}") from error


def check_free(host: str, port: int) -> None:
    """Raise StartError if the address can't be used. gRPC's own message is long and bypasses the log."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise StartError(f"can't listen on {host_port(host, port)}: {error.strerror}") from error


def connection_options(settings: Settings) -> list[tuple[str, int]]:
    """Return gRPC's options: the limits of messages, metadata and pings."""
    return [
        ("grpc.so_reuseport", 0),  # a port in use is an error, not a shared port
        ("grpc.max_receive_message_length", settings.max_request_bytes),
        ("grpc.max_send_message_length", settings.max_response_bytes),
        # The limits are equal: between a soft and a hard limit, gRPC rejects at random.
        ("grpc.max_metadata_size", _MAX_METADATA_BYTES),
        ("grpc.absolute_max_metadata_size", _MAX_METADATA_BYTES),
        ("grpc.server_max_unrequested_time_in_server", MAX_UNREQUESTED_S),
        ("grpc.keepalive_time_ms", round(settings.keepalive_time_s * 1000)),
        ("grpc.keepalive_timeout_ms", round(settings.keepalive_timeout_s * 1000)),
        ("grpc.keepalive_permit_without_calls", 1),
        # A long prefill sends nothing: without this, clients that ping meanwhile would be disconnected.
        ("grpc.http2.min_ping_interval_without_data_ms", round(MIN_PING_INTERVAL_S * 1000)),
    ]


def _credentials(files: CertificateFiles) -> grpc.ServerCredentials:
    """Return credentials that use the files' current certificates for each new connection."""

    def configuration() -> grpc.ServerCertificateConfiguration:
        certificates = files.current
        assert certificates.key is not None and certificates.chain is not None  # noqa: S101,PT018  a server's files have both
        return grpc.ssl_server_certificate_configuration(
            [(certificates.key, certificates.chain)], certificates.authorities
        )

    def changed() -> grpc.ServerCertificateConfiguration | None:
        return configuration() if files.refresh() else None

    requires_client_certificate = files.current.authorities is not None
    fetch: Any = changed  # None means unchanged; the stub doesn't know it
    return grpc.dynamic_ssl_server_credentials(configuration(), fetch, requires_client_certificate)
