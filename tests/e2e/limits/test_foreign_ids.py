"""Ids of stored things that are another key's, deleted, or made up: all have the same answers over REST."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests.command import sluice
from tests.e2e.stack import GENERATOR, Stack, started
from tests.waiting import GUARD_S

BASES: Final = ("/v1", "/openai/v1", "/openai")
MESSAGE: Final = {"type": "message", "role": "user", "content": "hi"}
# The kinds of stored things, each with the methods, the rest of the path, and the body of all calls with an id.
CALLS: Final[dict[str, list[tuple[str, str, Any]]]] = {
    "responses": [
        ("GET", "", None), ("GET", "?stream=true", None), ("GET", "/input_items", None), ("POST", "/cancel", None),
        ("POST", "/replay", None), ("DELETE", "", None),
    ],
    "conversations": [
        ("GET", "", None), ("POST", "", {"metadata": {}}), ("GET", "/items", None), ("GET", "/items/x", None),
        ("POST", "/items", {"items": [MESSAGE]}), ("DELETE", "/items/x", None), ("DELETE", "", None),
    ],
    "files": [("GET", "", None), ("GET", "/content", None), ("DELETE", "", None)],
    "batches": [("GET", "", None), ("POST", "/cancel", None), ("DELETE", "", None)],
}  # fmt: skip
MADE_UP: Final = {
    "responses": "resp_" + "0" * 32, "conversations": "conv_" + "0" * 32, "files": "file-0", "batches": "batch_0"
}  # fmt: skip


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The file of two keys, and both."""
    path = tmp_path_factory.mktemp("keys") / "keys.yaml"
    made = {}
    for name in ("a", "b"):
        done = sluice("keys", "create", "--id", name, "--file", str(path), "--json")
        assert done.returncode == 0, done.stderr
        made[name] = json.loads(done.stdout)["key"]
    return path, made


@pytest.fixture(scope="module")
def storing(keys: tuple[Path, dict[str, str]]) -> Iterator[Stack]:
    """A product with these keys that stores responses."""
    with started(GENERATOR, "--store-responses", "--keys-file", str(keys[0])) as stack:
        yield stack


class Client:
    """The REST client of one key."""

    def __init__(self, stack: Stack, key: str) -> None:
        self._url = stack.url
        self._headers = {"authorization": f"Bearer {key}"}

    def call(self, method: str, path: str, body: Any = None, **options: Any) -> httpx.Response:
        options = options if body is None else {"json": body}
        return httpx.request(method, self._url + path, headers=self._headers, timeout=GUARD_S, **options)

    def created(self) -> dict[str, str]:
        """Return the ids of a new thing of each kind."""
        response = self.call("POST", "/v1/responses", {"model": "sluice-demo", "input": "hi", "store": True,
                                                       "max_output_tokens": 4})  # fmt: skip
        conversation = self.call("POST", "/v1/conversations", {"items": [MESSAGE]})
        chat = {"model": "sluice-demo", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
        url = "/v1/chat/completions"
        line = json.dumps({"custom_id": "r", "method": "POST", "url": url, "body": chat}).encode() + b"\n"
        form: dict[str, Any] = {"data": {"purpose": "batch"}, "files": {"file": ("a.jsonl", line)}}
        file = self.call("POST", "/v1/files", **form)
        described = {"input_file_id": file.json()["id"], "endpoint": url, "completion_window": "24h"}
        batch = self.call("POST", "/v1/batches", described)
        answers = {"responses": response, "conversations": conversation, "files": file, "batches": batch}
        return {kind: answer.raise_for_status().json()["id"] for kind, answer in answers.items()}


def seen(answer: httpx.Response) -> tuple[int, bytes, list[str]]:
    """Return all that a client gets, except what differs in each call."""
    return answer.status_code, answer.content, sorted(answer.headers)


def test_foreign_deleted_and_made_up_ids_are_alike(storing: Stack, keys: tuple[Path, dict[str, str]]) -> None:
    """Each call of each path answers 404, equal to the byte; what exists is not changed."""
    one, other = (Client(storing, keys[1][name]) for name in ("a", "b"))
    kept, deleted = one.created(), one.created()
    for kind in CALLS:
        one.call("DELETE", f"/v1/{kind}/{deleted[kind]}").raise_for_status()
    before = {kind: one.call("GET", f"/v1/{kind}/{kept[kind]}").json()["id"] for kind in CALLS}
    for base in BASES:
        for kind, calls in CALLS.items():
            for method, rest, body in calls:
                foreign = seen(other.call(method, f"{base}/{kind}/{kept[kind]}{rest}", body))
                assert foreign[0] == 404, (method, kind, rest, foreign)
                for each in (deleted[kind], MADE_UP[kind], "x"):
                    assert seen(one.call(method, f"{base}/{kind}/{each}{rest}", body)) == foreign, (method, kind, rest)
    assert {kind: one.call("GET", f"/v1/{kind}/{kept[kind]}").json()["id"] for kind in CALLS} == before == kept
