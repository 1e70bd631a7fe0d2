"""A load shows its progress."""

from __future__ import annotations

import logging
import sys

import pytest

from service.engine.models.checkpoint.progress import load_progress


def test_progress_draws_a_bar_in_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bar is written to stderr, with the model's name and the bytes read."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "120")
    with load_progress("tiny", 2_000_000) as on_read:
        on_read(500_000)
        on_read(1_500_000)
    shown = capsys.readouterr()
    assert "loading tiny" in shown.err
    assert "2.0/2.0 MB" in shown.err
    assert not shown.out


def test_progress_logs_elsewhere(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a terminal no bar is drawn, and the begin and end are logged."""
    monkeypatch.setenv("TTY_COMPATIBLE", "0")
    with caplog.at_level(logging.INFO), load_progress("tiny", 2_000_000) as on_read:
        on_read(2_000_000)
    first, last = (record.getMessage() for record in caplog.records)
    assert first == "loading tiny, 2.0 MB"
    assert last.startswith("loaded tiny in ")
    assert not capsys.readouterr().err
