"""What moves is told, the more seldom the longer it takes."""

from __future__ import annotations

import logging
from itertools import pairwise

import pytest

from service.engine.models.checkpoint.byte_log import ByteLog


def test_lines_come_while_bytes_move(caplog: pytest.LogCaptureFixture) -> None:
    """After 2 s, then every 2 s, later after a tenth of the time, and at least every 15 s: never without a byte."""
    now = 0.0
    log = ByteLog("downloading org/name", lambda: now)
    told: list[float] = []
    with caplog.at_level(logging.INFO):
        for _ in range(300):
            now += 1.0
            log.advance(1_000_000, 300_000_000)
            if len(caplog.records) > len(told):
                told.append(now)
        assert caplog.messages[0] == "downloading org/name: 2.0 of 300.0 MB, 1 MB/s"
        assert told[:3] == [2, 4, 6]
        gaps = [after - before for before, after in pairwise(told)]
        assert gaps == sorted(gaps)
        assert gaps[-1] == 15
