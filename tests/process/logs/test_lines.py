"""Log lines for a descriptor whose reader stops or leaves, or whose disk is full."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

from process.logs.lines import Lines
from process.logs.logs import JsonFormatter, LineHandler


def lines_to(descriptor: int) -> Lines:
    return Lines(descriptor, lambda num_dropped: f"({num_dropped} dropped)")


def test_a_stopped_reader_does_not_block() -> None:
    """Lines that do not fit into a full pipe are dropped, and a line with their number precedes the next one."""
    reader, writer = os.pipe()
    lines = lines_to(writer)
    for number in range(1000):
        lines.write(f"{number:03} " + "x" * 196)  # 200 KB into a pipe of 64
    kept = os.read(reader, 1 << 20).decode().splitlines()
    assert 100 < len(kept) < 1000
    assert [line[:3] for line in kept] == [f"{number:03}" for number in range(len(kept))]
    lines.write("after")
    assert os.read(reader, 1 << 20).decode() == f"({1000 - len(kept)} dropped)\nafter\n"
    os.close(reader)
    os.close(writer)


def test_partly_written_line_is_terminated() -> None:
    """A partly written line is never joined with the next one."""
    reader, writer = os.pipe()
    lines = lines_to(writer)
    lines.write("a" * 100_000)
    assert set(os.read(reader, 1 << 20)) == set(b"a")
    lines.write("after")
    assert os.read(reader, 1 << 20).decode() == "\n(1 dropped)\nafter\n"
    os.close(reader)
    os.close(writer)


def test_missing_log_reader_is_not_an_error() -> None:
    """A closed pipe, a closed descriptor and a full disk are ignored."""
    reader, writer = os.pipe()
    lines = lines_to(writer)
    os.close(reader)
    lines.write("nobody reads this")
    os.close(writer)
    lines.write("nor this")
    with Path("/dev/full").open("wb", buffering=0) as full:
        lines_to(full.fileno()).write("nor this")


def test_dropped_log_lines_are_counted_in_the_log() -> None:
    """The count is a JSON line like every other."""
    reader, writer = os.pipe()
    handler = LineHandler(writer, JsonFormatter())
    for _ in range(3):
        handler.handle(logging.makeLogRecord({"msg": "x" * 60_000}))
    os.read(reader, 1 << 20)
    handler.handle(logging.makeLogRecord({"msg": "after", "levelname": "INFO"}))
    lines = [json.loads(line) for line in os.read(reader, 1 << 20).decode().split("\n") if line]
    assert [(line["level"], line["message"], line.get("num_lines")) for line in lines] == [
        ("warning", "log lines were dropped", 2),
        ("info", "after", None),
    ]
    os.close(reader)
    os.close(writer)
