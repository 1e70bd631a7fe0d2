"""Checks before anything starts: ports, folders, certificates. All problems are reported together."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

from process.network.address import host_port
from process.network.tls import TlsError
from runner.settings import ADMIN_HOST, Settings, is_gguf, is_hub_id


class RunError(Exception):
    """The run can't continue; each argument is one line for the user."""

    def __str__(self) -> str:
        return "\n".join(map(str, self.args))


def check(settings: Settings) -> None:
    """Check ports and model folders before anything starts, and create the folder of a given endpoints' file.

    Raise RunError with all problems.
    """
    if problems := [*_port_problems(settings), *_model_problems(settings)]:
        raise RunError(*problems)
    if settings.endpoints_file is not None:
        try:
            settings.endpoints().parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"endpoints_file {settings.endpoints()}: {error.strerror}") from error
    if (public := settings.public_tls()) is not None:
        try:
            public.check()
        except TlsError as error:
            raise RunError(str(error)) from error


def make_certificates(settings: Settings) -> None:
    """Create the run's development certificates, if it has TLS. Raise RunError."""
    if (tls := settings.development_tls()) is not None:
        try:
            tls.make(settings.host)
        except (OSError, ValueError) as error:
            raise RunError(f"certs_folder {tls.folder}: {getattr(error, 'strerror', None) or error}") from error


def _port_problems(settings: Settings) -> Iterator[str]:
    """Yield a line for each port that two listeners have or that is in use; each line names the setting."""
    used: dict[int, str] = {}
    for name, port in settings.ports().items():
        if used.setdefault(port, name) != name:
            yield f"{used[port]} and {name} are both {port}; each needs its own port"
    for port, name in used.items():
        host = ADMIN_HOST if name == "envoy_admin_port" else settings.host
        try:
            probe_port(host, port)
        except OSError as error:
            yield (
                f"cannot listen on {host_port(host, port)} ({error.strerror}); "
                f"choose another {name} with --{name.replace('_', '-')} or SLUICE_{name.upper()}"
            )


def _model_problems(settings: Settings) -> Iterator[str]:
    for name, model in settings.served().items():
        path = Path(model)
        is_file = is_gguf(path) and path.is_file()
        if not is_hub_id(model) and not is_file and not Path(model, "config.json").is_file():
            if file := min((each for each in path.glob("*") if is_gguf(each)), default=None):
                hint = f"its GGUF file is served by its own name: {file}"
            else:
                hint = "expected a model's folder, a GGUF file or a hub id, ORG/MODEL"
            lacks = "does not exist" if is_gguf(path) and not path.exists() else "has no config.json"
            yield f"model {name}: {model} {lacks}; {hint}"


def probe_port(host: str, port: int) -> None:
    """Raise OSError if it is impossible to listen there."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)
