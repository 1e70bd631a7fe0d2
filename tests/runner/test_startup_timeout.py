"""A start times out after a time without progress."""

from __future__ import annotations

import json

from runner.startup.startup_timeout import StartupTimeout

PROGRESS = json.dumps({"logger": "any", "message": "downloading o/m: 1.0 of 9.0 MB, 1 MB/s", "loaded_bytes": 1_000_000})


def test_loading_progress_extends_the_startup_timeout() -> None:
    """Only a JSON line of the service with the field `loaded_bytes` extends the timeout."""
    now = 0.0
    startup_timeout = StartupTimeout(300, lambda: now)
    now = 200.0
    assert startup_timeout.left_s == 100
    for name, text in (
        ("gateway", PROGRESS),
        ("service", "loaded_bytes"),
        ("service", json.dumps({"logger": "service.access", "message": "loaded_bytes"})),
        ("service", '["loaded_bytes"]'),
    ):
        startup_timeout.observe(name, text)
        assert startup_timeout.left_s == 100
    startup_timeout.observe("service", PROGRESS)
    assert startup_timeout.left_s == 300
    now = 900.0
    assert startup_timeout.left_s == 0


async def test_end_returns_when_the_timeout_has_passed() -> None:
    """`end` returns when the time is over."""
    await StartupTimeout(0.01).end()
