"""A start is given up after a time without progress, not after a time."""

from __future__ import annotations

import json

import pytest

from runner.startup_timeout import StartupTimeout

SIGN = json.dumps(
    {"logger": "service.engine.models.checkpoint.byte_log", "message": "downloading o/m: 1.0 of 9.0 MB, 1 MB/s"}
)


def test_progress_makes_it_longer() -> None:
    """From each line that tells of bytes; what anybody else says, or says of it, does not count."""
    now = 0.0
    startup_timeout = StartupTimeout(300, lambda: now)
    now = 200.0
    assert startup_timeout.left_s == 100
    for name, text in (
        ("gateway", SIGN),
        ("service", "service.engine.models.checkpoint.byte_log"),
        ("service", json.dumps({"logger": "service.access", "message": "service.engine.models.checkpoint.byte_log"})),
        ("service", '["service.engine.models.checkpoint.byte_log"]'),
    ):
        startup_timeout.observe(name, text)
        assert startup_timeout.left_s == 100
    startup_timeout.observe("service", SIGN)
    assert startup_timeout.left_s == 300
    now = 900.0
    assert startup_timeout.left_s == 0


@pytest.mark.timeout(30)
async def test_its_end_is_waited_for() -> None:
    """And comes."""
    await StartupTimeout(0.01).end()
