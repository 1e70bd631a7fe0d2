"""`sluice status` against the whole product, several servers, and a missing server."""

from __future__ import annotations

import json
import re
import threading

from openai import OpenAI

from process.distribution import installed_version
from tests.command import sluice
from tests.e2e.stack import Stack
from tests.waiting import wait_until


def test_a_server_is_shown_by_model(stack: Stack) -> None:
    """The table has the load of each model."""
    stack.until_idle()
    heads, first, second = sluice("status", "--over", "0.1", url=stack.url).stdout.splitlines()
    assert heads.split("  ")[0] == "SERVER"
    assert first.split() == [stack.url, "ready", installed_version(), "sluice-demo", "0", "0", "0", "%", "0"]
    assert second.split()[:3] == ["all-minilm-l6-v2", "0", "0"]


def test_speed_is_computed_between_two_readings(stack: Stack) -> None:
    """A reading shows the generated tokens per second while a client generates."""
    client = OpenAI(base_url=f"{stack.url}/v1", api_key="unused")
    stop = threading.Event()
    speeds: list[float | None] = []

    def generate() -> None:
        while not stop.is_set():
            client.completions.create(
                model="sluice-demo", prompt="Count.", max_tokens=1900, extra_body={"ignore_eos": True}
            )

    def is_counted() -> bool:
        state = json.loads(sluice("status", "--json", "--over", "1", url=stack.url).stdout)
        assert state["ready"] is True
        speeds.append(state["load"]["sluice-demo"]["tokens_per_s"])
        return bool(speeds[-1])

    generating = threading.Thread(target=generate)
    generating.start()
    try:
        wait_until(is_counted, lambda: speeds)
    finally:
        stop.set()
        generating.join()
    assert None not in speeds  # None: the service was restarted


def test_status_of_several_servers_is_one_table(stack: Stack) -> None:
    """Each server has a line; a missing one is reported with its problem, and the exit code is 1."""
    gone = "http://127.0.0.1:1"
    done = sluice("status", "--over", "0.1", "--url", stack.gateway, "--url", gone, url=stack.url)
    assert done.returncode == 1
    states = {words[0]: words[1] for line in done.stdout.splitlines() if len(words := re.split(r"  +", line)) > 2}
    assert states[stack.gateway] == states[stack.url] == "ready"
    assert states[gone] == "not ready"
    assert f"{gone}: no server at {gone}" in done.stdout
    listed = json.loads(sluice("status", "--json", "--over", "0.1", "--url", gone, url=stack.url).stdout)
    assert [(each["url"], each["ready"]) for each in listed] == [(gone, False), (stack.url, True)]
