"""`sluice run`: serve a model on free ports, chat with it, and stop the server at the end."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Annotated, Final

import typer

from cli.calls.options import AsJson
from cli.calls.server import Server, ServerError
from cli.commands.chat import chat

_PORTS: Final = ("envoy", "gateway", "service", "service-metrics")
_POLL_S: Final = 0.1
_READY: Final = 200  # the status of /readyz


def run(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A folder, a GGUF file or ORG/MODEL on the hub, as of serve.")
    ],
    settings: Annotated[list[str] | None, typer.Argument(metavar="SETTING", help="Flags of serve, after --.")] = None,
    system: Annotated[str, typer.Option(help="The system prompt.")] = "",
    parameter: Annotated[
        list[str], typer.Option("--set", metavar="NAME=VALUE", help="A request parameter; repeatable.")
    ] = [],
    as_json: AsJson = False,
) -> None:
    """Serve a model and chat with it, or answer standard input. The server stops at the end."""
    with _served([model, *(settings or ())]) as url:
        chat(system=system, parameter=parameter, as_json=as_json, url=url)


@contextmanager
def _served(arguments: Sequence[str]) -> Iterator[str]:
    """Run `sluice serve` on free ports with a state folder of its own, and yield the URL when it is ready."""
    from runner.processes.lifeline import command_dying_with_parent  # noqa: PLC0415  imported on use

    ports = _free_ports(len(_PORTS))
    flags = [f"--{name}-port={port}" for name, port in zip(_PORTS, ports, strict=True)]
    with tempfile.TemporaryDirectory(prefix="sluice-run-") as state:
        command = [sys.executable, "-m", "runner", *flags, "--state-folder", state, "--log-format", "text", *arguments]
        # In a session of its own, so that Ctrl-C ends an answer and not the server.
        process = subprocess.Popen(  # noqa: S603  the user's own arguments, without a shell
            command_dying_with_parent(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        log = _Log(process)
        try:
            url = f"http://127.0.0.1:{ports[0]}"
            _wait_until_ready(url, process, log)
            yield url
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()
            log.join()


class _Log(threading.Thread):
    """Reads the server's log to its end, and prints it to standard error until `is_quiet`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        super().__init__(daemon=True)
        self.is_quiet = False
        self.last: deque[str] = deque(maxlen=1)
        self._process = process
        self.start()

    def run(self) -> None:
        """Read lines until the server has ended."""
        assert self._process.stdout is not None  # noqa: S101  it is a pipe
        for line in self._process.stdout:
            if text := line.decode(errors="replace").rstrip():
                self.last.append(text)
                if not self.is_quiet:
                    typer.echo(text, err=True)


def _wait_until_ready(url: str, process: subprocess.Popen[bytes], log: _Log) -> None:
    """Return when the server is ready. A server that ends instead ends the command with its exit code."""
    server = Server(url)
    try:
        while process.poll() is None:
            try:
                if server.status("/readyz") == _READY:
                    log.is_quiet = True
                    return
            except ServerError:  # it doesn't listen yet
                pass
            time.sleep(_POLL_S)
    finally:
        server.close()
    log.join()  # its last line says why
    raise typer.Exit(process.returncode)


def _free_ports(count: int) -> list[int]:
    """Return ports that are free now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
