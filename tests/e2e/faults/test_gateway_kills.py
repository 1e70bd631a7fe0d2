"""Batches and responses in the background whose gateway is killed while they are created or read: each exists once.

GATEWAY_KILLS is the number of random instants at which it is killed; `make fuzz` tries 200.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import httpx
import pytest

from tests.e2e.stack import GENERATOR, ROOT, Stack, free_ports, started
from tests.waiting import GUARD_S

KILLS = int(os.environ.get("GATEWAY_KILLS", "3"))
NUM_RESPONSES: Final = 3  # that are created before each kill
NUM_LINES: Final = 24
QUESTION: Final = "What is the capital of France?"
BODY: Final = {
    "model": "sluice-demo", "temperature": 0, "max_output_tokens": 20, "background": True, "input": QUESTION
}  # fmt: skip
LOST: Final = {502, 503, 504}  # statuses of a gateway that starts

pytestmark = [pytest.mark.long, pytest.mark.timeout(300 + 120 * KILLS)]


@pytest.fixture
def storing() -> Iterator[Stack]:
    """A separate product that stores."""
    with started(GENERATOR, "--store-responses") as stack:
        yield stack


class Gateway:
    """Another gateway of the product's service, which can be killed and started again on the same port."""

    def __init__(self, service_port: int) -> None:
        (self.port,) = free_ports(1)
        self._command = [sys.executable, "-m", "gateway", f"--port={self.port}", f"--target=127.0.0.1:{service_port}"]
        self._start()

    def kill(self) -> None:
        """Kill the process, and start another one, which serves later."""
        self.end()
        self._start()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def _start(self) -> None:
        self._process = subprocess.Popen(self._command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture
def gateway(storing: Stack) -> Iterator[Gateway]:
    gateway = Gateway(storing.ports["service"])
    yield gateway
    gateway.end()


@pytest.fixture
async def http(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{gateway.port}/v1", timeout=GUARD_S) as client:
        yield client


async def patient(http: httpx.AsyncClient, method: str, path: str, **options: Any) -> httpx.Response:
    """Return the answer to a request, which is repeated while no gateway answers it."""
    async with asyncio.timeout(GUARD_S):
        while True:
            with contextlib.suppress(httpx.TransportError):
                answer = await http.request(method, path, **options)
                if answer.status_code not in LOST:
                    assert answer.status_code == 200, (method, path, answer.status_code, answer.text)
                    return answer
            await asyncio.sleep(0.05)


async def created(http: httpx.AsyncClient, path: str, key: str, body: dict[str, Any]) -> Any:
    """Create an object with an id of the client's, and return it when it has ended."""
    found = (await patient(http, "POST", path, json=body, headers={"idempotency-key": key})).json()
    async with asyncio.timeout(GUARD_S):
        while found["status"] in {"queued", "in_progress"}:
            await asyncio.sleep(0.05)
            found = (await patient(http, "GET", f"{path}/{found['id']}")).json()
    return found


async def text(http: httpx.AsyncClient, number: int) -> str:
    """Return the text of a new response in the background."""
    response = await created(http, "/responses", f"response {number}", BODY)
    assert response["status"] == "completed"
    found: str = response["output"][-1]["content"][0]["text"]
    return found


def lines() -> bytes:
    """Return an input file. Most of its requests are large, so that their creation takes some time, and rejected."""
    url = "/v1/chat/completions"
    messages = [{"role": "user", "content": QUESTION}]
    small = {"model": "sluice-demo", "temperature": 0, "max_tokens": 20, "messages": messages}
    large = {"model": "nobody", "messages": [{"role": "user", "content": "x" * 100_000}]}
    bodies = [small if number % 8 == 0 else large for number in range(NUM_LINES)]
    requests = [{"custom_id": str(n), "method": "POST", "url": url, "body": body} for n, body in enumerate(bodies)]
    return b"".join(json.dumps(each).encode() + b"\n" for each in requests)


async def results(http: httpx.AsyncClient, file_id: str, number: int) -> dict[str, Any]:
    """Return the results of a new batch by their requests' ids, without what depends on the time."""
    body = {"input_file_id": file_id, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    batch = await created(http, "/batches", f"batch {number}", body)
    assert (batch["status"], batch["request_counts"]["total"]) == ("completed", NUM_LINES)
    found = {}
    for name in ("output_file_id", "error_file_id"):
        for line in (await patient(http, "GET", f"/files/{batch[name]}/content")).text.splitlines():
            result = json.loads(line)
            answer = result["response"]["body"]
            found[result["custom_id"]] = answer.get("error") or answer["choices"][0]["message"]["content"]
    return found


def counts(stack: Stack) -> list[int]:
    """Return the numbers of stored objects."""
    (path,) = stack.state_folder.rglob("responses.sqlite3")
    with contextlib.closing(sqlite3.connect(path)) as file:
        tables = ("responses", "jobs", "batches", "batch_lines")
        return [file.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables]  # noqa: S608  constants


async def test_killed_gateway_loses_and_doubles_nothing(
    storing: Stack, gateway: Gateway, http: httpx.AsyncClient
) -> None:
    """Clients that repeat their calls with the same ids get the results of undisturbed ones; nothing else is left."""
    draw = random.Random(13)
    file = await patient(http, "POST", "/files", data={"purpose": "batch"}, files={"file": ("in.jsonl", lines())})
    file_id = file.json()["id"]
    expected, expected_results = await text(http, 0), await results(http, file_id, 0)
    assert len(expected_results) == NUM_LINES
    for kill in range(1, KILLS + 1):
        numbers = range(kill * NUM_RESPONSES, (kill + 1) * NUM_RESPONSES)
        calls = [asyncio.create_task(text(http, number)) for number in numbers]
        batch = asyncio.create_task(results(http, file_id, kill))
        await asyncio.sleep(draw.random() * 0.5)
        gateway.kill()
        assert await asyncio.gather(*calls) == [expected] * NUM_RESPONSES
        assert await batch == expected_results
    assert counts(storing) == [1 + KILLS * NUM_RESPONSES, 0, 1 + KILLS, (1 + KILLS) * NUM_LINES]
