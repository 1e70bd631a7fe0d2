"""Log lines: their fields, their order, and the context of the request."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import TracerProvider

from process.logs.logs import JsonFormatter, configure_logs

RECORD = logging.LogRecord("n", logging.WARNING, "f", 1, "m %s", ("é\n",), None)


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    """The root logger, restored afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield root
    root.handlers[:], root.level = handlers, level


def test_line_has_time_level_logger_and_message() -> None:
    """The line is one JSON object with these fields in this order, and non-ASCII text is not escaped."""
    text = JsonFormatter().format(RECORD)
    assert text.startswith('{"time":"')
    assert "é" in text
    assert "\n" not in text
    line = json.loads(text)
    assert list(line) == ["time", "level", "logger", "message"]
    assert (line["level"], line["logger"], line["message"]) == ("warning", "n", "m é\n")


def test_line_has_no_terminal_control_characters() -> None:
    """Logged text may be a client's, and JSON itself does not escape DEL and the C1 controls."""
    controls = "".join(map(chr, [*range(32), *range(0x7F, 0xA0)]))
    text = JsonFormatter().format(logging.makeLogRecord({"msg": f"a{controls}b"}))
    assert not set(text) & set(controls)
    assert json.loads(text)["message"] == f"a{controls}b"


def test_line_has_the_active_spans_ids() -> None:
    """The ids have W3C's format."""
    with TracerProvider().get_tracer("t").start_as_current_span("s") as span:
        line = json.loads(JsonFormatter().format(RECORD))
    ids = span.get_span_context()
    assert (line["trace_id"], line["span_id"]) == (f"{ids.trace_id:032x}", f"{ids.span_id:016x}")


def test_line_has_the_context_and_the_records_fields() -> None:
    """The context is read for every line, and values that are not JSON are logged as text."""
    ids = iter(["r-1", "r-2"])
    formatter = JsonFormatter(lambda: {"request_id": next(ids)})
    record = logging.makeLogRecord({"msg": "m", "fields": {"status": 200, "error": ValueError("x")}})
    first, second = json.loads(formatter.format(record)), json.loads(formatter.format(record))
    assert (first["request_id"], first["status"], first["error"]) == ("r-1", 200, "x")
    assert second["request_id"] == "r-2"


def test_line_has_the_exception() -> None:
    """The exception is in the same line."""
    record = logging.LogRecord("n", logging.ERROR, "f", 1, "m", None, (ValueError, ValueError("x"), None))
    line = json.loads(JsonFormatter().format(record))
    assert "ValueError: x" in line["exception"]


def test_logs_go_to_standard_error(
    root_logger: logging.Logger, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records of the level and above go to standard error only."""
    monkeypatch.setattr(sys, "stderr", sys.__stderr__)  # the descriptor of a real process
    configure_logs("warning", lambda: {"request_id": "r-1"})
    logging.getLogger("any").info("below the level")
    logging.getLogger("any").warning("heard")
    out, errors = capfd.readouterr()
    (line,) = errors.splitlines()
    assert not out
    assert (json.loads(line)["message"], json.loads(line)["request_id"]) == ("heard", "r-1")
    assert len(root_logger.handlers) == 1
