"""The life of the server: it listens until a stop, and then until running requests have ended."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import Mapping
from functools import partial

from gateway.operators.drain import Drain
from gateway.server.app import build_app
from gateway.server.exposure import ExposedError, until_exposed
from gateway.server.http_server import build_server
from gateway.server.listeners import ListenerAudience
from gateway.settings.config import PROGRAM, Settings
from gateway.telemetry.telemetry import Telemetry
from gateway.upstream.client import ServiceClient
from process.lifetime.stop import StopSignal
from process.network.tls import CertificateFiles
from process.settings.process_settings import read_settings
from process.settings.reload import Reload

_log = logging.getLogger(PROGRAM)


async def serve(
    settings: Settings,
    telemetry: Telemetry,
    listeners: Mapping[ListenerAudience, socket.socket],
    files: CertificateFiles | None = None,
) -> ExposedError | None:
    """Serve until a stop signal, then until running requests have ended. Return why it can't serve, or None."""
    stop, drain = StopSignal(), Drain()
    reload = Reload(settings, partial(read_settings, Settings, sys.argv[1:]))
    telemetry.watch_loop()
    async with ServiceClient.connect(settings, telemetry) as client:
        servers = [
            build_server(settings, build_app(settings, client, telemetry, drain, audience), files)
            for audience in listeners
        ]
        bound = zip(servers, listeners.values(), strict=True)
        serving = [asyncio.create_task(server.serve([each])) for server, each in bound]
        for audience, listener in listeners.items():
            host, port = listener.getsockname()[:2]
            fields = {"host": host, "port": port, "target": settings.target, "audience": audience.value}
            _log.info("listening", extra={"fields": fields})
        stopping = asyncio.create_task(stop.wait())
        following = asyncio.create_task(reload.follow(lambda _: None))
        exposure = asyncio.create_task(until_exposed(client, settings))
        await asyncio.wait({*serving, stopping, exposure}, return_when=asyncio.FIRST_COMPLETED)
        if stopping.done():
            _log.info("draining", extra={"fields": {"num_running": drain.num_running}})
            await stop.until_drained(drain.drain(stop.delay_s(settings.drain_delay_s), settings.stop_timeout_s))
            await asyncio.gather(*(server.end_requests() for server in servers))
        for server in servers:
            server.should_exit = True
        await asyncio.gather(*serving)
        stopping.cancel()
        following.cancel()
        if exposure.done():
            return exposure.result()
        exposure.cancel()
        return None
