"""Lines to readers that stop, leave, or have no room on their disk."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

from process.logs.lines import Lines
from process.logs.logs import JsonFormatter, LineHandler


def lines_to(descriptor: int) -> Lines:
    return Lines(descriptor, lambda num_left_out: f"({num_left_out} left out)")


def test_a_stopped_reader_stops_nobody() -> None:
    """What a full pipe doesn't take is left out; when it is read again, the next line is preceded by their number."""
    reader, writer = os.pipe()
    lines = lines_to(writer)
    for number in range(1000):
        lines.write(f"{number:03} " + "x" * 196)  # 200 KB into a pipe of 64
    kept = os.read(reader, 1 << 20).decode().splitlines()
    assert 100 < len(kept) < 1000
    assert [line[:3] for line in kept] == [f"{number:03}" for number in range(len(kept))]
    lines.write("after")
    assert os.read(reader, 1 << 20).decode() == f"({1000 - len(kept)} left out)\nafter\n"
    os.close(reader)
    os.close(writer)


def test_a_torn_line_is_ended() -> None:
    """The beginning of a line that found no room for its end is never joined with the next one."""
    reader, writer = os.pipe()
    lines = lines_to(writer)
    lines.write("a" * 100_000)
    assert set(os.read(reader, 1 << 20)) == set(b"a")
    lines.write("after")
    assert os.read(reader, 1 << 20).decode() == "\n(1 left out)\nafter\n"
    os.close(reader)
    os.close(writer)


def test_a_reader_that_left_is_no_error() -> None:
    """Nor is one whose descriptor was closed, or a full disk."""
    reader, writer = os.pipe()
    lines = lines_to(writer)
    os.close(reader)
    lines.write("nobody reads this")
    os.close(writer)
    lines.write("nor this")
    with Path("/dev/full").open("wb", buffering=0) as full:
        lines_to(full.fileno()).write("nor this")


def test_lost_log_lines_are_counted_in_the_log() -> None:
    """As JSON, like every line."""
    reader, writer = os.pipe()
    handler = LineHandler(writer, JsonFormatter())
    for _ in range(3):
        handler.handle(logging.makeLogRecord({"msg": "x" * 60_000}))
    os.read(reader, 1 << 20)
    handler.handle(logging.makeLogRecord({"msg": "after", "levelname": "INFO"}))
    told = [json.loads(line) for line in os.read(reader, 1 << 20).decode().split("\n") if line]
    assert [(line["level"], line["message"], line.get("num_lines")) for line in told] == [
        ("warning", "log lines were left out", 2),
        ("info", "after", None),
    ]
    os.close(reader)
    os.close(writer)
