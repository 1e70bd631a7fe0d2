"""Ollama's `keep_alive`: how long a model stays in memory without requests."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from sluice.v1.model_pb2 import KeepModelRequest
from sluice.v1.serving_pb2 import ServingOptions

from gateway.dialects.seam.failure import Failure

KeepAlive: TypeAlias = float | str  # seconds, or a duration such as 1h30m; negative: as long as possible

_FIELD: Final = "keep_alive"
_MAX_S: Final = 31_536_000.0  # of the contract; more is as long as possible
_FOREVER_S: Final = -1.0
_UNITS_S: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"(\d{1,18}(?:\.\d{0,18})?|\.\d{1,18})(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_DURATION: Final = re.compile(rf"([+-]?)((?:{_PART.pattern}){{1,20}}|0)", re.ASCII)


def set_keep_alive(message: ServingOptions | KeepModelRequest, value: KeepAlive | None) -> None:
    """Set the time of a request. Raise Failure for a text that is no duration."""
    if value is None:
        return
    seconds = _seconds(value) if isinstance(value, str) else value
    message.keep_alive_seconds = seconds if 0 <= seconds <= _MAX_S else _FOREVER_S


def _seconds(text: str) -> float:
    """Return the seconds of a duration in Go's form."""
    if (match := _DURATION.fullmatch(text)) is None:
        raise Failure.of_field(_FIELD, 'must be a number of seconds or a duration such as "5m" or "1h30m"')
    seconds = sum(float(number) * _UNITS_S[unit] for number, unit in _PART.findall(match[2]))
    return -seconds if match[1] == "-" else seconds
