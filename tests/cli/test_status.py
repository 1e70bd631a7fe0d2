"""`sluice status` against the whole product, a fleet of it, and what is none."""

from __future__ import annotations

import json
import re
import threading
from importlib.metadata import version

from openai import OpenAI

from tests.cli.test_chat import sluice
from tests.e2e.stack import Stack


def test_a_server_is_told_by_model(stack: Stack) -> None:
    """Each with what it has to do."""
    heads, first, second = sluice("status", "--over", "0.1", url=stack.door).stdout.splitlines()
    assert heads.split("  ")[0] == "SERVER"
    assert first.split() == [stack.door, "ready", version("sluice"), "sluice-demo", "0", "0", "0", "%", "0"]
    assert second.split()[:3] == ["all-minilm-l6-v2", "0", "0"]


def test_speed_is_counted_between_two_readings(stack: Stack) -> None:
    """While answers are generated."""
    client = OpenAI(base_url=f"{stack.door}/v1", api_key="unused")
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            client.completions.create(
                model="sluice-demo", prompt="Count.", max_tokens=1900, extra_body={"ignore_eos": True}
            )

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        told = json.loads(sluice("status", "--json", "--over", "1", url=stack.door).stdout)
    finally:
        stop.set()
        asking.join()
    assert told["ready"] is True
    assert told["load"]["sluice-demo"]["tokens_per_s"] > 0


def test_a_fleet_is_one_table(stack: Stack) -> None:
    """A line each; one that isn't there is told in words, and makes the exit code 1."""
    gone = "http://127.0.0.1:1"
    done = sluice("status", "--over", "0.1", "--url", stack.gateway, "--url", gone, url=stack.door)
    assert done.returncode == 1
    states = {words[0]: words[1] for line in done.stdout.splitlines() if len(words := re.split(r"  +", line)) > 2}
    assert states[stack.gateway] == states[stack.door] == "ready"
    assert states[gone] == "not ready"
    assert f"{gone}: no server at {gone}" in done.stdout
    listed = json.loads(sluice("status", "--json", "--over", "0.1", "--url", gone, url=stack.door).stdout)
    assert [(each["url"], each["ready"]) for each in listed] == [(gone, False), (stack.door, True)]
