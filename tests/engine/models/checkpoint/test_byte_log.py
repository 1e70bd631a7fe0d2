"""Progress is logged while bytes arrive, less often the longer it takes."""

from __future__ import annotations

import json
import logging
from itertools import pairwise

import pytest

from process.logs.loading_progress import reports_progress
from process.logs.logs import JsonFormatter
from service.engine.models.checkpoint.byte_log import ByteLog


def test_lines_come_while_bytes_move(caplog: pytest.LogCaptureFixture) -> None:
    """Intervals are 2 s, later a tenth of the elapsed time, and at most 15 s; nothing is logged without new bytes."""
    now = 0.0
    log = ByteLog("downloading org/name", lambda: now)
    reported: list[float] = []
    with caplog.at_level(logging.INFO):
        for _ in range(300):
            now += 1.0
            log.advance(1_000_000, 300_000_000)
            if len(caplog.records) > len(reported):
                reported.append(now)
        assert caplog.messages[0] == "downloading org/name: 2.0 of 300.0 MB, 1 MB/s"
        assert reported[:3] == [2, 4, 6]
        gaps = [after - before for before, after in pairwise(reported)]
        assert gaps == sorted(gaps)
        assert gaps[-1] == 15
        lines = [JsonFormatter().format(record) for record in caplog.records]
    assert all(map(reports_progress, lines))
    assert json.loads(lines[0])["loaded_bytes"] == 2_000_000
