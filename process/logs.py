"""Log lines: one JSON object each, on standard error, with the trace and the request they belong to.

`configure_logs` is called once, at start; the formatter runs in whichever thread logs. Prompts and answers are never
logged.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TypeAlias

from opentelemetry import trace

Context: TypeAlias = Callable[[], Mapping[str, object]]


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
        return self._encoder.encode(line)


def configure_logs(level: str, context: Context = dict) -> None:
    """Send every record of `level` ("debug", "info", …) and above to standard error as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(context))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
