"""API keys that compete for the whole product, behind Envoy: an overload by one key, and a moderate key."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.command import sluice
from tests.e2e.stack import GENERATOR, Stack
from tests.waiting import GUARD_S

MODEL = "sluice-demo"
NUM_FLOOD = 40


@dataclass
class Shared:
    """A running product with few batch slots, and the keys of several teams."""

    stack: Stack
    keys: dict[str, str]

    async def chat(self, client: httpx.AsyncClient, key: str, text: str, **fields: Any) -> httpx.Response:
        """Return an unstreamed answer."""
        body = {"model": MODEL, "messages": [{"role": "user", "content": text}], **fields}
        headers = {"authorization": f"Bearer {self.keys[key]}"}
        return await client.post(f"{self.stack.url}/v1/chat/completions", json=body, headers=headers)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    folder = tmp_path_factory.mktemp("fairness")
    keys = {}
    for name, *options in (
        ("polite",),
        ("flooder", "--min-priority", "-100"),
        ("one", "--cache-group", "friends"),
        ("other", "--cache-group", "friends"),
    ):
        made = sluice("keys", "create", "--id", name, *options, "--file", str(folder / "keys.yaml"), "--json")
        keys[name] = json.loads(made.stdout)["key"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLUICE_SERVICE_ENGINE__MAX_BATCH_SEQUENCES", "4")
        patch.setenv("SLUICE_SERVICE_ENGINE__MAX_QUEUE_WAIT_S", "0.2")
        stack = Stack(GENERATOR, "--keys-file", str(folder / "keys.yaml"))
    try:
        stack.wait_for("sluice is ready")
        yield Shared(stack, keys)
    finally:
        stack.stop()


async def test_overload_by_one_key_does_not_block_another_key(shared: Shared) -> None:
    """One key's many long requests of the highest priority are partly rejected; another key's requests are all served.

    A rejected request gets 429 with Retry-After before any output.
    """
    async with httpx.AsyncClient(timeout=GUARD_S, limits=httpx.Limits(max_connections=None)) as client:
        await shared.chat(client, "polite", "Hello", max_tokens=1)  # Envoy prefers keys that it knows
        flood = [
            asyncio.create_task(
                shared.chat(client, "flooder", f"Tell {index}", max_tokens=1500, priority=-100, ignore_eos=True)
            )
            for index in range(NUM_FLOOD)
        ]
        await asyncio.wait(flood, return_when=asyncio.FIRST_COMPLETED)  # the first 429: the queue is full
        polite = [await shared.chat(client, "polite", f"Hello {index}", max_tokens=8) for index in range(10)]
        answers = await asyncio.gather(*flood)
    assert [(answer.status_code, answer.text) for answer in polite if answer.status_code != 200] == []
    assert {answer.status_code for answer in answers} == {200, 429}
    for answer in answers:
        if answer.status_code == 429:
            assert 1 <= int(answer.headers["retry-after"]) <= 30
            assert answer.json()["error"]["code"] == "rate_limit_exceeded"
    await asyncio.to_thread(shared.stack.until_idle)


async def test_priorities_and_cached_prompts_are_per_key(shared: Shared) -> None:
    """A priority below the key's minimum is rejected; a key sees its own cached prompts and its group's."""
    text = "Once upon a time there was a tulip that nobody had ever seen. " * 8

    async def cached(client: httpx.AsyncClient, key: str) -> int:
        answer = await shared.chat(client, key, text, max_tokens=1)
        return int(answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"])

    async with httpx.AsyncClient(timeout=GUARD_S) as client:
        refused = await shared.chat(client, "polite", "Hello", priority=-1)
        allowed = await shared.chat(client, "flooder", "Hello", priority=-1, max_tokens=1)
        found = [await cached(client, key) for key in ("polite", "flooder", "polite", "one", "other")]
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "priority")
    assert "at least 0" in refused.json()["error"]["message"]
    assert allowed.status_code == 200
    assert [num > 50 for num in found] == [False, False, True, False, True]
