"""Log lines for people."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from runner.processes.readable import ReadableLog

COLOURS = re.compile(r"\x1b\[\d+m")
TIME = {"time": "2026-11-22T11:49:52.382+00:00"}


def shown(name: str, entry: dict[str, Any], *, has_greeted: bool = True) -> str | None:
    """Return the line without its colours and its time."""
    readable = ReadableLog()
    readable.has_greeted = has_greeted
    line = readable.line(name, json.dumps(TIME | entry))
    return None if line is None else re.sub(r"^\d\d:\d\d:\d\d ", "", COLOURS.sub("", line))


REQUEST = {"message": "request", "method": "POST", "path": "/v1/x", "status": 429, "duration_s": 0.0123}
CALL = {"message": "call", "method": "sluice.v1.ChatService/Chat", "status": "OK", "duration_s": 1.5, "model": "m"}


@pytest.mark.parametrize(
    ("name", "entry", "line"),
    [
        ("service", {"message": "model is ready", "level": "info", "model": "m"}, "service model is ready  model=m"),
        ("gateway", REQUEST, "gateway POST /v1/x  429  12 ms"),
        ("service", CALL, "service sluice.v1.ChatService/Chat  OK  1500 ms"),
        ("service", {"message": "no", "level": "error", "exception": "Trace\nback"}, "service no\nTrace\nback"),
        ("gateway", {"message": "started", "level": "info", "logger": "uvicorn.error"}, None),
        ("gateway", {"message": "wrong", "level": "error", "logger": "uvicorn.error"}, "gateway wrong"),
        ("envoy", {"path": "/v1/x", "status": 200}, None),
    ],
)
def test_log_entries_become_short_lines(name: str, entry: dict[str, Any], line: str | None) -> None:
    """An entry becomes its message with its fields, and a request its status and duration."""
    assert shown(name, entry) == line


def test_the_runners_own_requests_are_not_shown() -> None:
    """Requests before the greeting are the runner's own."""
    assert shown("gateway", REQUEST, has_greeted=False) is None


def test_lines_that_are_not_json_are_unchanged() -> None:
    """Lines that are not JSON, such as Envoy's warnings or a crash's last line, are unchanged."""
    for text in ("[warning] no route", '"text"', "{broken"):
        assert COLOURS.sub("", ReadableLog().line("envoy", text) or "") == f"envoy   {text}"


@pytest.mark.parametrize("name", ["gateway", "envoy"])
@pytest.mark.parametrize(
    "entry",
    [
        REQUEST | {"path": "/v1/\x1b[2J\x9b31m\nrun: all is well\r"},
        {"message": "no\x1b[2J", "level": "info", "reason": "\x1b]0;owned\x07", "list": ["\x1b[2J"]},
        {"message": "no", "level": "error", "exception": "Trace\n\x1b[2Jback"},
    ],
)
def test_text_of_clients_has_no_terminal_control_characters(name: str, entry: dict[str, Any]) -> None:
    """A request's path cannot move the cursor, change colours, or add a line."""
    line = shown(name, entry) or ""
    assert [character for character in line if not character.isprintable() and character != "\n"] == []
    assert line.count("\n") == (2 if "exception" in entry else 0)


def test_other_lines_have_no_terminal_control_characters() -> None:
    """Envoy's own warnings may quote a client's header."""
    assert (
        COLOURS.sub("", ReadableLog().line("envoy", "[warning] \x1b]0;owned\x07") or "") == "envoy   [warning] ]0;owned"
    )


@pytest.mark.parametrize(
    "text",
    [
        '{"message": "m", "time": "yesterday"}',
        '{"message": "m", "level": []}',
        '{"message": {}}',
        '{"message": "request", "duration_s": "long"}',
        '{"message": ' + "[" * 100_000,
    ],
    ids=["time", "level", "message", "duration", "depth"],
)
def test_lines_of_another_form_are_shown_unchanged(text: str) -> None:
    """Any program that a process starts may write lines of JSON."""
    readable = ReadableLog(is_coloured=False)
    readable.has_greeted = True
    assert readable.line("service", text) == f"service {text}"
