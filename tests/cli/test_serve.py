"""`sluice serve` in a terminal, its errors about invalid arguments, and the help of `sluice`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_group
from typer.testing import CliRunner

from cli.app import APP
from tests.cli.terminal import Terminal
from tests.e2e.stack import ROOT, free_ports
from tests.waiting import GUARD_S

pytestmark = pytest.mark.slow

PORTS = ("envoy", "envoy-admin", "gateway", "service", "service-metrics")


def test_terminal_output_is_short_lines(tmp_path: Path) -> None:
    """The terminal shows short lines instead of JSON, the greeting last, each request, and a clean stop."""
    flags = [f"--{name}-port={port}" for name, port in zip(PORTS, free_ports(len(PORTS)), strict=True)]
    arguments = ["serve", f"demo={ROOT / 'demo/model'}", *flags, "--state-folder", str(tmp_path)]
    with Terminal(*arguments, env={}) as terminal:
        before = terminal.until("Ctrl-C stops everything.\n")
        assert "model is ready" in before
        assert '{"' not in before.partition("Try:")[0]
        assert "  models          demo\n" in before
        port = flags[0].partition("=")[2]
        command = [sys.executable, "-m", "cli", "chat", "Who are you?", "--url", f"http://127.0.0.1:{port}"]
        subprocess.run(command, cwd=ROOT, capture_output=True, timeout=GUARD_S, check=True)
        between = terminal.until("POST /v1/chat/completions")
        assert "Try:" not in between
        terminal.type("\x03")
        terminal.until("run: stopping when the running requests have ended")
        assert terminal.end() == 0
        assert "Traceback" not in terminal.shown


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["/nowhere"], 1, "run: model nowhere: /nowhere has no config.json; expected a model's folder, a GGUF file"),
        (["a/x", "b/x"], 2, "run: a/x and b/x are both named x; rename one, as in NAME=b/x"),
        (["--envoy-port", "http"], 2, "run: envoy_port: Input should be a valid integer"),
        (["--nonsense", "1"], 2, "run: --nonsense: unknown flag"),
        (["--keys-file", "/nowhere/keys.yaml"], 1, "/nowhere/keys.yaml"),
    ],
)
def test_invalid_arguments_are_reported_in_one_line(arguments: list[str], code: int, text: str, tmp_path: Path) -> None:
    """The error is one line without a traceback, before anything serves."""
    flags = [f"--{name}-port={port}" for name, port in zip(PORTS, free_ports(len(PORTS)), strict=True)]
    flags += ["--state-folder", str(tmp_path)]
    command = [sys.executable, "-m", "cli", "serve", *flags, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=GUARD_S, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert text in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_every_command_has_a_whole_line_in_the_help(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 80 columns shows each description without `...`."""
    monkeypatch.setenv("COLUMNS", "80")
    shown = CliRunner().invoke(APP, ["--help"]).stdout.partition("Commands:\n")[2]
    lines = [line for line in shown.splitlines() if line.strip()]
    assert {line.split()[0] for line in lines} == set(get_group(APP).commands)
    assert [line for line in lines if not line.endswith(".") or line.endswith("...")] == []
