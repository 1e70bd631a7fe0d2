"""The measurements of a round, of which one fails."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from bench.serving import __main__ as serving
from bench.serving.requests import FailedRequestError


class FakeServer:
    """A server that uses no CPU time."""

    def __init__(self, name: str) -> None:
        self.name = name

    def cpu_seconds(self) -> float:
        return 0.0


class FakeFleet:
    """A fleet whose servers need no start."""

    folder = Path("weights")

    def turn(self, name: str, _streams: int) -> FakeServer:
        return FakeServer(name)

    def pause(self) -> None:
        pass


class FakeLoad:
    """A load whose server `limited` rejects more than one stream."""

    seed = 0

    def __init__(self, server: FakeServer, _seed: int) -> None:
        self.server = server

    def prompt(self, num_tokens: int) -> str:
        return "word " * num_tokens

    def request(self, prompt: str, num_tokens: int) -> str:
        return prompt

    def send(self, requests: list[str]) -> list[dict[str, Any]]:
        if self.server.name == "limited" and len(requests) > 1:
            raise FailedRequestError("HTTP 503: busy")
        return [{"sent": 0.0, "received": [1.0, 4.0], "tokens": 9, "prompt_tokens": 32} for _ in requests]


def test_a_failed_case_is_left_out(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The other cases and servers are measured, and the error is printed."""
    monkeypatch.setattr(serving, "Load", FakeLoad)
    monkeypatch.setattr(serving, "floor_s", lambda _folder: 0.5)
    options = Namespace(scenarios=["chats"], servers=["limited", "other"], device="cpu", prompts=[32], streams=[1, 2])
    fleet: Any = FakeFleet()
    records = list(serving.measure_round(fleet, "5m", 0, options))
    assert [(record["server"], record["case"]["streams"]) for record in records] == [
        ("limited", 1),
        ("other", 1),
        ("other", 2),
    ]
    assert {record["weights_s"] for record in records} == {0.5}
    assert "limited failed: HTTP 503: busy" in capsys.readouterr().out
