"""Log lines: one JSON object each, on standard error, with the trace they belong to.

Owns the format. `configure_logs` is called once, at start. What is said about a request, its id included, stands in
the record's `fields`; nobody puts prompts there.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime

import orjson
from opentelemetry import trace


class JsonFormatter(logging.Formatter):
    """Writes time, level, logger, message, trace ids, and the mapping given as `extra={"fields": …}`."""

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
        line.update(getattr(record, "fields", {}))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


def configure_logs(level: str) -> None:
    """Send every record of `level` ("debug", "info", …) and above to standard error as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
