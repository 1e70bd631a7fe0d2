"""Starts the gateway: `python -m gateway` or `sluice-gateway`.

A bad setting or an address in use ends it with one line and a non-zero code.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys

import uvicorn
import uvloop
from starlette.types import ASGIApp

from gateway.app import build_app
from gateway.client import ServiceClient
from gateway.config import PROGRAM, Settings
from gateway.telemetry import Telemetry
from process.errors import ConfigError
from process.exit import exit_with
from process.logs import configure_logs
from process.settings import read_settings

_LOGGER = logging.getLogger(PROGRAM)


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    try:
        settings = read_settings(Settings, sys.argv[1:])
    except ConfigError as error:
        exit_with(PROGRAM, error, 2)
    configure_logs(settings.log_level)
    try:
        listener = _listen(settings.host, settings.port)
    except OSError as error:
        exit_with(PROGRAM, f"{settings.host}:{settings.port} can't be listened on: {error.strerror or error}", 1)
    telemetry = Telemetry(settings.otlp_endpoint)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # uvicorn takes them over while it serves, and raises them again after
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(settings, telemetry, listener))
    finally:
        telemetry.shutdown()


async def serve(settings: Settings, telemetry: Telemetry, listener: socket.socket) -> None:
    """Serve on `listener` until told to stop, then until running requests have ended."""
    async with ServiceClient.connect(settings, telemetry) as client:
        host, port = listener.getsockname()[:2]
        _LOGGER.info("listening", extra={"fields": {"host": host, "port": port, "target": settings.target}})
        await build_server(settings, build_app(settings, client, telemetry)).serve([listener])


def build_server(settings: Settings, app: ASGIApp) -> uvicorn.Server:
    """The HTTP server around the application."""
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=settings.idle_timeout_s,
        timeout_graceful_shutdown=settings.stop_timeout_s,
    )
    return uvicorn.Server(config)


def _listen(host: str, port: int) -> socket.socket:
    family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    return socket.create_server(address[:2], family=family, backlog=2048)


if __name__ == "__main__":
    main()
