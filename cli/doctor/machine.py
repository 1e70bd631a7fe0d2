"""Checks of the machine: installed versions, instruction set, memory and ports."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from glob import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from cli.doctor.finding import Finding, Status
from process.distribution import NAME
from process.network.address import host_port
from runner.settings import Settings, is_hub_id
from runner.startup.checks import probe_port
from service.engine.device.memory import available_host_bytes

_REQUIRED: Final = (NAME, "torch", "transformers", "grpcio", "starlette")
_NATIVE: Final = "sluice-native"
_WEIGHTS: Final = ("*.safetensors", "*.bin")
_NUMBER: Final = re.compile(r"\d{5}(?=-of-\d{5}\.)", re.IGNORECASE)  # in the name of a part of a GGUF file
_GIB: Final = 2**30
_LOW_BYTES: Final = 2 * _GIB  # the three processes take about 1 GiB before any weight
_OTHER_CPU: Final = (
    "was built for another CPU, so models run on the slower torch backend; install the published wheel, which has all"
    " instruction sets, or run `make run` in the checkout"
)
_INSTRUCTION_SETS: Final = "import sluice_native; print(*sluice_native.instruction_sets())"


def check_versions() -> Iterator[Finding]:
    """Yield the version of Python and of each package that the processes need."""
    yield Finding("python", Status.OK, platform.python_version())
    for name in _REQUIRED:
        try:
            yield Finding(name, Status.OK, version(name))
        except PackageNotFoundError:
            yield Finding(name, Status.FAILED, f"not installed; pip install {NAME}")


def check_instruction_set() -> Finding:
    """Return the instruction sets of the native backend on this CPU; the first one is in use.

    The module is loaded in a separate process, because a module that was built for another CPU crashes the process.
    """
    try:
        installed = version(_NATIVE)
    except PackageNotFoundError:
        return Finding(_NATIVE, Status.WARNING, "not installed; CPUs use the slower torch backend")
    command = [sys.executable, "-c", _INSTRUCTION_SETS]
    result = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  the same Python
    if result.returncode:
        reason = result.stderr.strip().rpartition("\n")[2] or f"exit code {result.returncode}"
        return Finding(_NATIVE, Status.FAILED, f"{installed} can't be loaded: {reason}")
    if not result.stdout.split():
        return Finding(_NATIVE, Status.WARNING, f"{installed} {_OTHER_CPU}")
    used, *others = result.stdout.split()
    rest = f"; also {', '.join(others)}" if others else ""
    return Finding(_NATIVE, Status.OK, f"{installed} uses {used}{rest}")


def check_memory(settings: Settings) -> Iterator[Finding]:
    """Yield the available memory, compared with the size of the models' files."""
    available = available_host_bytes()
    weights = sum(_weight_bytes(Path(model)) for model in settings.served().values() if not is_hub_id(model))
    text = f"{available / _GIB:.1f} GiB available"
    if weights:
        text += f", {weights / _GIB:.1f} GiB of weights"
    if weights >= available:
        yield Finding("memory", Status.FAILED, f"{text}; `sluice check MODEL` shows what a model needs")
    elif available - weights < _LOW_BYTES:
        yield Finding("memory", Status.WARNING, f"{text}; less than {_LOW_BYTES // _GIB} GiB remain for caches")
    else:
        yield Finding("memory", Status.OK, text)


def check_ports(settings: Settings) -> Iterator[Finding]:
    """Yield a finding for each port: whether a process can listen on it."""
    used: dict[int, str] = {}
    for name, port in settings.ports().items():
        address = host_port(settings.host, port)
        if used.setdefault(port, name) != name:
            yield Finding(name, Status.FAILED, f"port {port} is also used by {used[port]}; choose another one")
            continue
        try:
            probe_port(settings.host, port)
        except OSError as error:
            flag = f"--{name.replace('_', '-')}"
            yield Finding(name, Status.FAILED, f"{address}: {error.strerror}; choose another port with {flag}")
        else:
            yield Finding(name, Status.OK, f"{address} is free")


def _weight_bytes(model: Path) -> int:
    """Return the size of a folder's weight files, in the first format that is present, or of a GGUF file's parts."""
    if model.is_file():
        return sum(file.stat().st_size for file in model.parent.glob(_NUMBER.sub("*", escape(model.name))))
    for pattern in _WEIGHTS:
        if files := list(model.glob(pattern)):
            return sum(file.stat().st_size for file in files)
    return 0
