"""The help of `sluice`: a line for each command, which an 80-column terminal shows whole."""

from __future__ import annotations

import pytest
from typer.main import get_group
from typer.testing import CliRunner

from cli.app import APP


@pytest.mark.slow  # it imports the modules of all commands
def test_every_command_has_a_whole_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = CliRunner().invoke(APP, ["--help"]).stdout.partition("Commands:\n")[2]
    lines = [line for line in shown.splitlines() if line.strip()]
    assert {line.split()[0] for line in lines} == set(get_group(APP).commands)
    assert [line for line in lines if not line.endswith(".")] == []
    assert [line for line in lines if line.endswith("...")] == []
