"""Format the processes' JSON log lines as short coloured lines for a terminal."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any, Final

from process.logs.loading_progress import LOADED_BYTES
from process.logs.terminal import escaped_text, plain

_DIM, _RED, _YELLOW, _BOLD, _PLAIN = "\x1b[2m", "\x1b[31m", "\x1b[33m", "\x1b[1m", "\x1b[0m"
_COLOUR: Final = re.compile(r"\x1b\[[0-9]+m")
_COLOURS: Final = {"warning": _YELLOW, "error": _RED, "critical": _RED}
_STANDARD_FIELDS: Final = {"time", "level", "logger", "message", "trace_id", "span_id", "exception", LOADED_BYTES}
_REQUESTS: Final = {"request", "call"}  # the messages of the gateway's and the service's access log
_UVICORN: Final = "uvicorn."  # its lines repeat the gateway's own


class ReadableLog:
    """A formatter of log lines for people, called once per line."""

    def __init__(self, *, is_coloured: bool = True) -> None:
        self._is_coloured = is_coloured
        self.has_greeted = False  # before that, all requests are the runner's own

    def line(self, name: str, text: str) -> str | None:
        """Return the line to show for a log line of the process `name`, or None to hide it.

        It never raises: lines that have no form that it knows are shown unchanged.
        """
        try:
            shown = self._coloured_line(name, text)
        except Exception:  # noqa: BLE001  a process whose output is no longer read would block
            shown = self._shown(name, plain(text))
        return shown if shown is None or self._is_coloured else _COLOUR.sub("", shown)

    def _coloured_line(self, name: str, text: str) -> str | None:
        """Return the line to show for a log line of the process `name`, or None to hide it.

        Envoy's access lines are hidden, because gateway and service log requests too. Lines that are not JSON are
        shown unchanged. Since clients wrote some of the text, terminal control characters are escaped or removed.
        """
        try:
            given = json.loads(text)
        except ValueError:
            return self._shown(name, plain(text))
        if not isinstance(given, dict):
            return self._shown(name, plain(text))
        if "message" not in given:
            return None if name == "envoy" else self._shown(name, plain(text))
        entry = {
            escaped_text(key): escaped_text(value) if isinstance(value, str) else value for key, value in given.items()
        }
        if entry["message"] in _REQUESTS:
            return self._request(name, entry) if self.has_greeted else None
        level = entry.get("level", "info")
        if str(entry.get("logger", "")).startswith(_UVICORN) and level == "info":
            return None
        colour = _COLOURS.get(level, "")
        shown = f"{colour}{entry['message']}{_PLAIN if colour else ''}{_fields(entry)}"
        if "exception" in given:
            shown += f"\n{plain(str(given['exception']))}"
        return self._shown(name, shown, entry)

    def _request(self, name: str, entry: dict[str, Any]) -> str:
        """Return the line of a request: method, path, status and duration."""
        method = entry.get("method", "")
        if "path" in entry:
            method = f"{method} {entry['path']}"
        status = entry.get("status", entry.get("code", ""))
        is_wrong = status not in {"OK", "CANCELLED"} and not (isinstance(status, int) and status < 400)
        colour = _YELLOW if is_wrong else ""
        took = f"  {1000 * entry['duration_s']:.0f} ms" if "duration_s" in entry else ""
        return self._shown(name, f"{method}  {colour}{status}{_PLAIN if colour else ''}{took}", entry)

    @staticmethod
    def _shown(name: str, text: str, entry: dict[str, Any] | None = None) -> str:
        """Return a line with the time and the process's name."""
        moment = ""
        if entry is not None and "time" in entry:
            moment = f"{datetime.fromisoformat(entry['time']).astimezone():%H:%M:%S} "
        return f"{_DIM}{moment}{name:7}{_PLAIN} {text}"


def _fields(entry: dict[str, Any]) -> str:
    """Return a log entry's own fields, dimmed."""
    extra = [f"{name}={value}" for name, value in entry.items() if name not in _STANDARD_FIELDS and value is not None]
    return f"  {_DIM}{' '.join(extra)}{_PLAIN}" if extra else ""
