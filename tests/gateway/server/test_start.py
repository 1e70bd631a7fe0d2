"""Settings, start and stop of the gateway's process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from gateway.settings.config import Settings
from process.errors import ConfigError
from process.settings.process_settings import read_settings
from tests.e2e.stack import free_ports
from tests.waiting import GUARD_S

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'generated'}"}


def test_settings_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flags override the environment, the environment the file, the file the standard variable."""
    path = tmp_path / "gateway.yaml"
    path.write_text("port: 1\nhost: file\ntarget: file:1\notlp_endpoint: file:4317\n")
    monkeypatch.setenv("SLUICE_GATEWAY_PORT", "2")
    monkeypatch.setenv("SLUICE_GATEWAY_HOST", "environment")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "standard:4317")
    assert read_settings(Settings, []).otlp_endpoint == "standard:4317"
    settings = read_settings(Settings, ["--config", str(path), "--port", "3"])
    assert (settings.port, settings.host, settings.target) == (3, "environment", "file:1")
    assert settings.otlp_endpoint == "file:4317"


def test_settings_from_toml(tmp_path: Path) -> None:
    """A TOML file has the same names."""
    path = tmp_path / "gateway.toml"
    path.write_text('keep_alive_interval_s = 2.5\nlog_level = "debug"\n')
    settings = read_settings(Settings, ["--config", str(path)])
    assert (settings.keep_alive_interval_s, settings.log_level) == (2.5, "debug")


@pytest.mark.parametrize(
    ("arguments", "file", "words"),
    [
        (["--port", "70000"], None, "port: "),
        (["--port", "x"], None, "port: "),
        (["--max-body-bytes", "0"], None, "max_body_bytes: "),
        (["--request-deadline-s", "inf"], None, "request_deadline_s: "),
        (["--log-level", "loud"], None, "log_level: "),
        (["--nothing", "1"], None, "--nothing"),
        ([], "nothing: 1", "nothing: "),
        ([], "[1]", "must be a mapping of settings by name"),
        ([], "a: [", "config: "),
    ],
)
def test_bad_setting_is_named(tmp_path: Path, arguments: list[str], file: str | None, words: str) -> None:
    """The error for an invalid value is one line with its name."""
    if file is not None:
        path = tmp_path / "f.yaml"
        path.write_text(file)
        arguments = [*arguments, "--config", str(path)]
    with pytest.raises(ConfigError) as caught:
        read_settings(Settings, arguments)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("problem", ["port in use", "bad value", "no such file", "bad host"])
def test_failed_start_prints_one_line(problem: str) -> None:
    """A failed start prints one line to standard error and exits with a non-zero code."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        arguments, words, code = {
            "port in use": (["--port", port], f"127.0.0.1:{port}", 1),
            "bad value": (["--port", "70000"], "port", 2),
            "no such file": (["--config", "/nowhere"], "/nowhere", 2),
            "bad host": (["--host", "256.0.0.1", "--port", "0"], "256.0.0.1", 1),
        }[problem]
        run = subprocess.run(
            [sys.executable, "-m", "gateway", *arguments],
            cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=GUARD_S, check=False,
        )  # fmt: skip
    assert run.returncode == code
    (line,) = run.stderr.splitlines()
    assert line.startswith("sluice-gateway: ")
    assert words in line


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_process_serves_and_stops(number: signal.Signals) -> None:
    """The process answers requests, exits with code 0 on a signal, and logs only JSON."""
    (port,) = free_ports(1)
    with subprocess.Popen(
        [sys.executable, "-m", "gateway", "--port", str(port)],
        cwd=ROOT, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        lines = [process.stderr.readline()]
        assert '"listening"' in lines[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=GUARD_S) as answer:
            assert answer.status == 200
        process.send_signal(number)
        lines += process.stderr.readlines()
        assert process.wait(GUARD_S) == 0
    assert all(line.startswith('{"time":') for line in lines)


@pytest.mark.slow
def test_sighup_reloads_the_settings(tmp_path: Path) -> None:
    """SIGHUP applies the file's log level, names other changed settings, and rejects invalid ones."""
    path = tmp_path / "gateway.yaml"
    path.write_text("port: 0\n")
    with subprocess.Popen(
        [sys.executable, "-m", "gateway", "--config", str(path)],
        cwd=ROOT, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        log = process.stderr

        def tells(*texts: str) -> bool:
            return any(all(text in line for text in texts) for line in iter(log.readline, ""))

        try:
            assert tells('"Started server process')
            path.write_text("port: 0\ntarget: elsewhere:1\n")
            process.send_signal(signal.SIGHUP)
            assert tells("changed settings take effect at the next start", '"waiting":["target"]')
            path.write_text("port: never\n")
            process.send_signal(signal.SIGHUP)
            assert tells("the settings are invalid; the previous ones stay in use: port: ")
            path.write_text("port: 0\nlog_level: error\n")
            process.send_signal(signal.SIGHUP)
            assert tells("settings were reloaded", '"changed":["log_level"]')
            process.send_signal(signal.SIGINT)
            assert not log.readlines()
            assert process.wait(GUARD_S) == 0
        finally:
            process.kill()
