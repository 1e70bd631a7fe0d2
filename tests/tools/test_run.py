"""The runner's own parts: what it refuses before anything starts, and the logs of its children."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools.run import Children, RunError, Settings, check


def test_one_port_for_two_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both settings are named; each port by itself would be free."""
    monkeypatch.setattr(sys, "argv", ["run", "--endpoints-file", str(tmp_path / "endpoints.json")])
    settings = Settings(envoy_port=18999, gateway_port=18999)
    with pytest.raises(RunError, match="envoy_port and gateway_port are both 18999"):
        check(settings)


async def test_a_line_without_end_stops_no_child(capsys: pytest.CaptureFixture[str]) -> None:
    """A child that writes more than a line may have goes on, and so does its log."""
    children = Children()
    await children.start("child", [sys.executable, "-c", "print('a' * 5_000_000); print('after')"])
    assert await children.first_exit() == ("child", 0)
    await children.stop()
    assert "child   | after\n" in capsys.readouterr().out
