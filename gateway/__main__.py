"""Start the gateway: `python -m gateway` or `sluice-gateway`.

An invalid setting or an address in use ends it with an error line and a non-zero code.
"""

from __future__ import annotations

import signal

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C before serving prints no traceback

import asyncio
import contextlib
import logging
import math
import socket
import ssl
import sys
from collections.abc import Iterator, Mapping
from functools import partial

import uvicorn
import uvloop
from starlette.types import ASGIApp

from gateway.app import ListenerAudience, build_app
from gateway.config import PROGRAM, Settings
from gateway.exposure import ExposedError, until_exposed
from gateway.http.connection import connection_type
from gateway.operators.drain import Drain
from gateway.telemetry import Telemetry
from gateway.upstream.client import ServiceClient
from process.errors import ConfigError
from process.lifetime.exit import exit_with
from process.lifetime.stop import StopSignal
from process.logs.logs import configure_logs
from process.network.address import host_port
from process.network.tls import CertificateFiles, TlsError, server_files
from process.settings.process_settings import read_settings
from process.settings.reload import Reload

_FINAL_WRITE_S = 2.0  # for the last bytes of cancelled requests

_PROBE_AFTER_S, _PROBE_INTERVAL_S, _NUM_PROBES = 30, 10, 3  # of an idle connection
_SWITCH_INTERVAL_S = 0.001  # longest wait of the event loop while another thread parses a large body

_LOGGER = logging.getLogger(PROGRAM)


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    try:
        settings = read_settings(Settings, sys.argv[1:])
    except ConfigError as error:
        exit_with(PROGRAM, error, 2)
    configure_logs(settings.log_level)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    try:
        files = server_files(settings.tls)
        listeners = listen_all(settings)
    except TlsError as error:
        exit_with(PROGRAM, error, 1)
    except OSError as error:
        exit_with(PROGRAM, error, 1)
    telemetry = Telemetry(settings.otlp_endpoint)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            exposed = runner.run(serve(settings, telemetry, listeners, files))
    except TlsError as error:
        exit_with(PROGRAM, error, 1)
    finally:
        telemetry.shutdown()
    if exposed is not None:
        exit_with(PROGRAM, exposed, 1)


async def serve(
    settings: Settings,
    telemetry: Telemetry,
    listeners: Mapping[ListenerAudience, socket.socket],
    files: CertificateFiles | None = None,
) -> ExposedError | None:
    """Serve on `listeners` until a stop, then until running requests have ended. Return why it can't serve, if so."""
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
            _LOGGER.info("listening", extra={"fields": fields})
        stopping = asyncio.create_task(stop.wait())
        following = asyncio.create_task(reload.follow(lambda _: None))
        exposure = asyncio.create_task(until_exposed(client, settings))
        await asyncio.wait({*serving, stopping, exposure}, return_when=asyncio.FIRST_COMPLETED)
        if stopping.done():
            _LOGGER.info("draining", extra={"fields": {"num_running": drain.num_running}})
            await stop.until_drained(drain.leave(stop.delay_s(settings.drain_delay_s), settings.stop_timeout_s))
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


class Server(uvicorn.Server):
    """uvicorn's server, without its signal handlers: the process stops it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield

    async def end_requests(self) -> None:
        """Cancel the running requests, and give them a moment to send their errors."""
        if running := set(self.server_state.tasks):
            _LOGGER.warning("running requests are cancelled", extra={"fields": {"num_requests": len(running)}})
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


def listen_all(settings: Settings) -> Mapping[ListenerAudience, socket.socket]:
    """Return the shared listener, or those for clients and operators. Raise OSError that names the address."""
    addresses = {ListenerAudience.ALL: (settings.host, settings.port)}
    if settings.admin_port is not None:
        addresses = {
            ListenerAudience.CALLERS: (settings.host, settings.port),
            ListenerAudience.OPERATORS: (settings.admin_host, settings.admin_port),
        }
    listeners = {}
    for audience, (host, port) in addresses.items():
        try:
            listeners[audience] = listen(settings.model_copy(update={"host": host, "port": port}))
        except OSError as error:
            raise OSError(f"can't listen on {host_port(host, port)}: {error.strerror or error}") from error
    return listeners


def listen(settings: Settings) -> socket.socket:
    """Return a listener whose connections are closed if the peer has vanished, or reads nothing for too long.

    Linux passes these options on to each connection. Without them a connection whose peer's machine is gone stays open
    for hours, and one whose peer doesn't read can't be closed, because written data has to be sent first.
    """
    host, port = settings.host, settings.port
    family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    listener = socket.create_server(address[:2], family=family, backlog=2048)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in {
        "TCP_KEEPIDLE": _PROBE_AFTER_S,
        "TCP_KEEPINTVL": _PROBE_INTERVAL_S,
        "TCP_KEEPCNT": _NUM_PROBES,
        "TCP_USER_TIMEOUT": math.ceil(settings.send_stall_timeout_s * 1000),
    }.items():
        if (option := getattr(socket, name, None)) is not None:  # some exist on Linux only
            listener.setsockopt(socket.IPPROTO_TCP, option, value)
    return listener


if __name__ == "__main__":
    main()
