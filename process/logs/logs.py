"""Log lines: one JSON object each, on standard error, with the trace and the request they belong to.

`configure_logs` is called once, at start; the formatter runs in whichever thread logs. Prompts and answers are never
logged. Nobody waits for who reads the log: lines that it doesn't take are left out, and counted in a later one.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TypeAlias

from opentelemetry import trace

from process.logs.lines import Lines

Context: TypeAlias = Callable[[], Mapping[str, object]]

# What JSON lets stand and a terminal obeys: DEL and the controls above it.
_ESCAPED = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}
_WARNING = {"levelno": logging.WARNING, "levelname": "WARNING"}


class JsonFormatter(logging.Formatter):
    """Writes time, level, logger, message, trace ids, `context()`, and the mapping given as `extra={"fields": …}`."""

    def __init__(self, context: Context = dict) -> None:
        """`context` tells what every line says of the request being served; it is called in the thread that logs."""
        super().__init__()
        self._context = context
        self._encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str)

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        span = trace.get_current_span().get_span_context()
        if span.is_valid:
            line["trace_id"] = trace.format_trace_id(span.trace_id)
            line["span_id"] = trace.format_span_id(span.span_id)
        line.update(self._context())
        line.update(getattr(record, "fields", {}))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return self._encoder.encode(line).translate(_ESCAPED)


class LineHandler(logging.Handler):
    """Writes each record as a line to a descriptor, if that takes it."""

    def __init__(self, descriptor: int, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self._lines = Lines(descriptor, self._notice)

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record; what can't be formatted is told on standard error by the library's own means."""
        try:
            self._lines.write(self.format(record))
        except Exception:  # noqa: BLE001  a log line harms nobody
            self.handleError(record)

    def _notice(self, num_left_out: int) -> str:
        fields = {"fields": {"num_lines": num_left_out}}
        return self.format(
            logging.makeLogRecord({"name": __name__, "msg": "log lines were left out", **_WARNING, **fields})
        )


def configure_logs(level: str, context: Context = dict) -> None:
    """Send every record of `level` ("debug", "info", …) and above to standard error as JSON."""
    handler = LineHandler(sys.stderr.fileno(), JsonFormatter(context))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
