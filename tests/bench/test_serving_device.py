"""The commands of the compared servers on a device."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench import shapes
from bench.serving import servers
from bench.serving.requests import Load
from bench.serving.scenarios import SCENARIOS, SIZES
from bench.serving.servers import command_of, installed

FOLDER = Path("weights")


@dataclass
class Options:
    """The options that choose the cases."""

    prompts: list[int]
    streams: list[int]
    rates: list[float]
    shared: list[int]


def test_servers_are_started_on_the_device() -> None:
    """This server has slots for all streams, unless a setting sets their number; CPU servers are left out."""
    own = command_of("sluice", FOLDER, 256, "cuda").environment
    assert own == {"SLUICE_SERVICE_DEVICE": "cuda", "SLUICE_SERVICE_ENGINE__MAX_BATCH_SEQUENCES": "256"}
    fewer = command_of("sluice:engine.max_batch_sequences=8", FOLDER, 256, "cuda").environment
    assert fewer["SLUICE_SERVICE_ENGINE__MAX_BATCH_SEQUENCES"] == "8"
    theirs = command_of("transformers", FOLDER, 256, "cuda").arguments
    assert theirs[theirs.index("--device") + 1] == "cuda"
    assert installed("cuda") == ["sluice", "transformers"]


def test_without_envoy_the_gateway_is_called(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A machine without Envoy is measured without it, under another name, and the reason is printed."""
    monkeypatch.setattr(servers, "ENVOY", tmp_path / "envoy")
    assert installed("cuda") == ["gateway", "transformers"]
    assert f"{tmp_path / 'envoy'} does not exist" in capsys.readouterr().err
    command = command_of("gateway:engine.device_memory=0.45", FOLDER, 256, "cuda")
    assert f"--gateway-port={command.port}" in command.arguments
    assert command.environment["SLUICE_SERVICE_ENGINE__DEVICE_MEMORY"] == "0.45"


def test_cases_beyond_a_device_are_left_out() -> None:
    """Streams with long prompts that together exceed a device's cache would only measure preemption."""
    options = Options(prompts=[128, 2_048], streams=[64, 256], rates=[], shared=[])
    cases = list(SCENARIOS["chats"].cases(SIZES["8b"], options))
    assert cases == [
        {"prompt": 128, "streams": 64},
        {"prompt": 128, "streams": 256},
        {"prompt": 2_048, "streams": 64},
    ]


def test_on_a_cpu_nothing_is_set_but_the_device() -> None:
    assert command_of("sluice", FOLDER, 4).environment == {"SLUICE_SERVICE_DEVICE": "cpu"}


def test_device_memory_is_that_of_the_servers_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another server on the same device doesn't count, nor does a process whose memory the driver doesn't know."""
    driver = tmp_path / "nvidia-smi"
    process = subprocess.Popen(["sleep", "60"])
    try:
        server = servers.Server(command_of("gateway", FOLDER, 1), process)
        monkeypatch.setenv("PATH", "/nowhere")
        assert server.device_memory() == 0
        driver.write_text(f"#!/bin/sh\necho '1, 700'\necho '{process.pid}, 512'\necho '2, [N/A]'\n")
        driver.chmod(0o700)
        monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
        assert server.device_memory() == 512 << 20
        assert 0 < server.memory() <= server.peak_memory()
    finally:
        process.kill()
        process.wait()


@pytest.mark.long
def test_the_product_serves_without_envoy() -> None:
    """The times of the start are recorded once."""
    with servers.serving(command_of("gateway", shapes.demo_without_end(), 1)) as server:
        load = Load(server, seed=0)
        seconds = dict(server.seconds)
        answer = load.send([load.request(load.prompt(32), 8)])[0]
        assert (answer["prompt_tokens"], answer["tokens"]) == (32, 8)
        server.until_ready()
        server.note_answer()
        assert 0 < seconds["ready_s"] < seconds["answered_s"]
        assert server.seconds == seconds


@pytest.mark.slow
def test_another_device_is_refused() -> None:
    command = [sys.executable, "-m", "bench.serving", "--device", "abacus"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "invalid choice: 'abacus'" in ended.stderr
