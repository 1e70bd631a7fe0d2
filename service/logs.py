"""Log lines: one JSON object each, on standard error, with the trace and the call they belong to.

Owns the format. `configure_logs` is called once, at start; the formatter runs in whichever thread logs. It knows no
request: what is said about one is in the record, and nobody puts prompts there.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from opentelemetry import trace

from service.call import current_call


class JsonFormatter(logging.Formatter):
    """Writes time, level, logger, message, ids, and the mapping given as `extra={"fields": …}`."""

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
        if (call := current_call()) is not None:
            line["request_id"] = call.request_id
        line.update(getattr(record, "fields", {}))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def configure_logs(level: str) -> None:
    """Send every record of `level` ("debug", "info", …) and above to standard error as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
