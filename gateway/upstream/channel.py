"""The gRPC channel to the service, which is reopened when the gateway's certificates change."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import grpc

from gateway.settings.config import Settings
from process.network.tls import CertificateFiles, target_files

_CHECK_INTERVAL_S = 1.0


class Channel:
    """Holds the current channel. `on_change` is called with each new one."""

    def __init__(self, settings: Settings, files: CertificateFiles | None) -> None:
        self._settings = settings
        self._files = files
        self._leaving: set[asyncio.Task[None]] = set()
        self.current = _channel(settings, files)
        self.on_change: Callable[[grpc.aio.Channel], None] = lambda _: None

    async def watch(self, files: CertificateFiles) -> None:
        """Open a new channel whenever the files change; running calls continue on the old one."""
        while True:
            await asyncio.sleep(_CHECK_INTERVAL_S)
            if files.refresh():
                old, self.current = self.current, _channel(self._settings, files)
                self.on_change(self.current)
                closing = asyncio.create_task(old.close(self._settings.request_deadline_s))
                self._leaving.add(closing)
                closing.add_done_callback(self._leaving.discard)

    async def close(self) -> None:
        """Close the channels and end their calls."""
        for closing in self._leaving:
            closing.cancel()
        await self.current.close()


@contextlib.asynccontextmanager
async def open_channel(settings: Settings) -> AsyncIterator[Channel]:
    """Open a channel, which survives restarts of the service: calls fail while it is unreachable. Raise TlsError."""
    files = target_files(settings.target_tls)
    channel = Channel(settings, files)
    watching = None if files is None else asyncio.create_task(channel.watch(files))
    try:
        yield channel
    finally:
        if watching is not None:
            watching.cancel()
        await channel.close()


def _channel(settings: Settings, files: CertificateFiles | None) -> grpc.aio.Channel:
    """Return a channel to the service."""
    options: list[tuple[str, str | int]] = [
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.http2.max_pings_without_data", 0),  # a long prefill sends nothing for a while
        ("grpc.initial_reconnect_backoff_ms", 200),
        ("grpc.max_reconnect_backoff_ms", 2_000),
        ("grpc.dns_min_time_between_resolutions_ms", 1_000),  # finds a service at a new address soon
        ("grpc.enable_retries", 0),  # `gateway.upstream.resuming_client` retries
        ("grpc.max_send_message_length", -1),  # HTTP bodies have their own limit
        ("grpc.max_receive_message_length", settings.max_response_bytes),
    ]
    if files is None:
        return grpc.aio.insecure_channel(settings.target, options)
    now = files.current
    if (name := settings.target_tls.server_name) is not None:
        options.append(("grpc.ssl_target_name_override", name))
    credentials = grpc.ssl_channel_credentials(now.authorities, now.key, now.chain)
    return grpc.aio.secure_channel(settings.target, credentials, options)
