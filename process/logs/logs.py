"""Log lines: one JSON object each, on standard error, with their trace and request.

`configure_logs` is called once, at the start; the formatter runs in the thread that logs. Prompts and answers are never
logged. Logging never blocks: lines that the reader of the log doesn't accept are dropped, and a later line counts them.
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

# Control characters that JSON does not escape and terminals interpret: DEL and those above it.
_ESCAPED = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}
_WARNING = {"levelno": logging.WARNING, "levelname": "WARNING"}


class JsonFormatter(logging.Formatter):
    """A formatter of time, level, logger, message, trace ids, `context()`, and the mapping `extra={"fields": …}`."""

    def __init__(self, context: Context = dict) -> None:
        """`context` returns the fields of the request being served; it is called in the thread that logs."""
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
    """A handler that writes each record as a line to a descriptor, without blocking."""

    def __init__(self, descriptor: int, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self._lines = Lines(descriptor, self._notice)

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record; one that can't be formatted is reported on standard error by the library."""
        try:
            self._lines.write(self.format(record))
        except Exception:  # noqa: BLE001  logging must not fail its caller
            self.handleError(record)

    def _notice(self, num_dropped: int) -> str:
        """Return the line that reports the number of dropped lines."""
        fields = {"fields": {"num_lines": num_dropped}}
        return self.format(
            logging.makeLogRecord({"name": __name__, "msg": "log lines were dropped", **_WARNING, **fields})
        )


def configure_logs(level: str, context: Context = dict) -> None:
    """Send every record of `level` ("debug", "info", …) and above to standard error as JSON."""
    handler = LineHandler(sys.stderr.fileno(), JsonFormatter(context))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
