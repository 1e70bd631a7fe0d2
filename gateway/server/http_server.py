"""The HTTP server of the application, which the process stops; it has no signal handlers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import ssl
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from gateway.http.connection import connection_type
from gateway.settings.config import PROGRAM, Settings
from process.network.tls import CertificateFiles

_FINAL_WRITE_S = 2.0  # for the last bytes of cancelled requests

_log = logging.getLogger(PROGRAM)


class Server(uvicorn.Server):
    """uvicorn's server, without its signal handlers: the process stops it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers."""
        yield

    async def end_requests(self) -> None:
        """Cancel the running requests, and give them a moment to send their errors."""
        if running := set(self.server_state.tasks):
            _log.warning("running requests are cancelled", extra={"fields": {"num_requests": len(running)}})
            for task in running:
                task.cancel()
            await asyncio.wait(running, timeout=_FINAL_WRITE_S)


def build_server(settings: Settings, app: ASGIApp, files: CertificateFiles | None = None) -> Server:
    """Return the HTTP server of the application."""
    config = uvicorn.Config(
        app,
        http=connection_type(settings.max_header_bytes, settings.headers_timeout_s),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        ssl_context_factory=None if files is None else lambda *_: reloading_context(files),
        timeout_keep_alive=settings.idle_timeout_s,
        timeout_graceful_shutdown=math.ceil(_FINAL_WRITE_S),  # requests have ended before
    )
    return Server(config)


def reloading_context(files: CertificateFiles) -> ssl.SSLContext:
    """Return a context whose handshakes use the current content of the files."""
    newest = files.server_context()

    def on_handshake(connection: ssl.SSLObject, _name: str | None, _first: ssl.SSLContext) -> None:
        nonlocal newest
        if files.refresh():
            newest = files.server_context()
        connection.context = newest

    first = files.server_context()
    first.sni_callback = on_handshake  # also called without a server name
    return first
