"""Start the gateway: `python -m gateway` or `sluice-gateway`.

An invalid setting or an address in use ends it with an error line and a non-zero code.
"""

from __future__ import annotations

import gc
import signal

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C before serving prints no traceback
    gc.disable()  # imports make many objects and no garbage; looking for it takes 7 % of their time

import asyncio
import sys

import uvloop

from gateway.server.listeners import listen_all
from gateway.server.serve import serve
from gateway.settings.config import PROGRAM, Settings
from gateway.telemetry.telemetry import Telemetry
from process.errors import ConfigError
from process.lifetime.exit import exit_with
from process.logs.logs import configure_logs
from process.network.tls import TlsError, server_files
from process.settings.process_settings import read_settings

_SWITCH_INTERVAL_S = 0.001  # the longest wait of the event loop for a thread that parses a large body


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    gc.enable()
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


if __name__ == "__main__":
    main()
