"""Files and batches by OpenAI's client, unchanged except for the base URL, through Envoy and a killed service."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from tests.e2e.clients.test_stored_responses import kill_service, storing
from tests.e2e.stack import Stack
from tests.waiting import GUARD_S

__all__ = ["storing"]  # the fixture

BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {
        "messages": [{"role": "user", "content": "What is the capital of France?"}],
        "max_tokens": 20,
    },
    "/v1/completions": {"prompt": "The capital of France is", "max_tokens": 8},
    "/v1/responses": {"input": "What is the capital of France?", "max_output_tokens": 20},
}


@pytest.fixture
def client(storing: Stack) -> Iterator[Any]:  # its overloads know only OpenAI's models
    with openai.OpenAI(base_url=f"{storing.url}/v1", api_key="unused", timeout=GUARD_S) as client:
        yield client


def upload(client: Any, url: str, bodies: list[dict[str, Any]]) -> Any:
    """Return a new file with a line for each body."""
    lines = [{"custom_id": f"r{n}", "method": "POST", "url": url, "body": body} for n, body in enumerate(bodies)]
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    file = client.files.create(file=("in.jsonl", content), purpose="batch")
    assert (file.bytes, client.files.content(file.id).read()) == (len(content), content)
    return file


def test_results_have_their_own_expiry(client: Any) -> None:
    """`output_expires_after` begins with the creation of the results' file; other values are rejected by name."""
    url = "/v1/chat/completions"
    file = upload(client, url, [{"model": "sluice-demo", **BODIES[url]}])

    def create(**expiry: Any) -> Any:
        return client.batches.create(
            input_file_id=file.id, endpoint=url, completion_window="24h", output_expires_after=expiry
        )

    batch = ended(client, create(anchor="created_at", seconds=3600))
    results = client.files.retrieve(batch.output_file_id)
    assert results.expires_at - results.created_at == 3600
    for expiry, text in (
        ({"anchor": "created_at", "seconds": 5}, "output_expires_after.seconds"),
        ({"anchor": "ended_at", "seconds": 3600}, "output_expires_after.anchor: must be created_at"),
    ):
        with pytest.raises(openai.BadRequestError, match=text):
            create(**expiry)


def test_fields_may_follow_the_file(client: Any) -> None:
    """Node's client sends the fields in the order of its caller; with invalid ones nothing is stored."""
    content = b"a line\n" * 100_000  # in several messages
    part: Any = ("file", ("in.jsonl", content))

    def send(*fields: tuple[str, str]) -> httpx.Response:
        parts = [part, *((name, (None, value)) for name, value in fields)]
        return httpx.post(f"{client.base_url}files", files=parts, timeout=GUARD_S)

    stored = send(("purpose", "batch"))
    assert stored.status_code == 200, stored.text
    assert client.files.content(stored.json()["id"]).read() == content
    anchor = ("expires_after[anchor]", "created_at")
    expiring = send(("purpose", "batch"), anchor, ("expires_after[seconds]", "3600")).json()
    assert expiring["expires_at"] - expiring["created_at"] == 3600
    assert client.files.content(expiring["id"]).read() == content
    before = [each.id for each in client.files.list()]
    for fields, words in (
        ((), "purpose: is required"),
        ((("purpose", "vision"),), "purpose: must be batch"),
        ((("purpose", "batch"), ("expires_after[seconds]", "5")), "at least 3600"),
        ((("purpose", "b" * 5000),), "at most 4096 bytes"),
    ):
        rejected = send(*fields)
        assert (rejected.status_code, words in rejected.text) == (400, True), rejected.text
    assert [each.id for each in client.files.list()] == before


def ended(client: Any, batch: Any) -> Any:
    """Return a batch as soon as it has ended."""
    until = time.monotonic() + GUARD_S
    while batch.status == "in_progress":
        assert time.monotonic() < until
        time.sleep(0.05)
        batch = client.batches.retrieve(batch.id)
    return batch


def results(client: Any, file_id: str) -> list[dict[str, Any]]:
    """Return the lines of a file, whose size is as described."""
    content = client.files.content(file_id).read()
    assert client.files.retrieve(file_id).bytes == len(content)
    return [json.loads(line) for line in content.splitlines()]


@pytest.mark.parametrize("url", BODIES)
def test_answers_are_those_of_single_calls(client: Any, url: str) -> None:
    """Each line of the output has the answer to its request; invalid requests have the errors of their calls."""
    body = {"model": "sluice-demo", "temperature": 0, **BODIES[url]}
    file = upload(
        client, url, [body, {**body, "temperature": 9}, {**body, "model": "nobody"}, {**body, "stream": True}]
    )
    batch = client.batches.create(input_file_id=file.id, endpoint=url, completion_window="24h", metadata={"a": "b"})
    assert (batch.status, batch.request_counts.total, batch.metadata) == ("in_progress", 4, {"a": "b"})
    batch = ended(client, batch)
    assert (batch.status, batch.request_counts.completed, batch.request_counts.failed) == ("completed", 1, 3)
    (line,) = results(client, batch.output_file_id)
    single = client.post(url.removeprefix("/v1"), body=body, cast_to=object)
    answer = line["response"]["body"]
    for name in ("choices", "output"):
        if name in single:
            assert without_ids(answer[name]) == without_ids(single[name])
    assert (line["custom_id"], line["response"]["status_code"], line["error"]) == ("r0", 200, None)
    failed = results(client, batch.error_file_id)
    assert [each["response"]["status_code"] for each in failed] == [400, 404, 400]
    wrongs: list[dict[str, Any]] = [{"temperature": 9}, {"model": "nobody"}]
    for each, wrong in zip(failed[:2], wrongs, strict=True):
        with pytest.raises(openai.APIStatusError) as rejection:
            client.post(url.removeprefix("/v1"), body={**body, **wrong}, cast_to=object)
        assert each["response"]["body"]["error"] == rejection.value.body
    assert {each.id for each in client.files.list(purpose="batch_output")} >= {
        batch.output_file_id,
        batch.error_file_id,
    }
    assert next(iter(client.batches.list(limit=1))).id == batch.id


def without_ids(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in part.items() if name != "id"} for part in parts]


def test_batch_survives_a_killed_service(storing: Stack, client: Any) -> None:
    """A batch is continued after a kill in its middle; each line has one answer, that of a single call."""
    body = {"model": "sluice-demo", "temperature": 0, **BODIES["/v1/chat/completions"]}
    file = upload(client, "/v1/chat/completions", [body] * 60)
    batch = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
    kill_service(storing)
    batch = ended(client, batch)
    assert (batch.status, batch.request_counts.completed) == ("completed", 60)
    lines = results(client, batch.output_file_id)
    assert [line["custom_id"] for line in lines] == [f"r{n}" for n in range(60)]
    single = client.chat.completions.create(**body).choices[0].message.content
    assert {line["response"]["body"]["choices"][0]["message"]["content"] for line in lines} == {single}
    for file_id in (file.id, batch.output_file_id):
        client.files.delete(file_id)
        with pytest.raises(openai.NotFoundError) as deleted:
            client.files.content(file_id)
        with pytest.raises(openai.NotFoundError) as unknown:
            client.files.content("file-x")
        assert deleted.value.body == unknown.value.body


def test_files_are_deleted_while_they_are_listed(client: Any) -> None:
    """The pages that follow begin after a deleted file: one that was uploaded, or one with results."""
    url = "/v1/completions"
    bodies: list[dict[str, Any]] = [{"model": "sluice-demo", **BODIES[url]}, {"model": "nobody", **BODIES[url]}]
    for _ in range(3):
        file = upload(client, url, bodies)
        ended(client, client.batches.create(input_file_id=file.id, endpoint=url, completion_window="24h"))
    deleted = [client.files.delete(each.id).id for each in client.files.list(limit=2)]
    assert len(deleted) >= 9
    assert not list(client.files.list())
    for order in ("asc", "desc"):
        assert not client.files.list(after=deleted[0], order=order).data
    with pytest.raises(openai.BadRequestError):
        client.files.list(after="file-x")


def test_files_of_other_editors_are_read(client: Any) -> None:
    """A byte order mark, blank lines and ends of lines as on Windows are no content."""
    url = "/v1/completions"
    lines = [json.dumps({"custom_id": name, "method": "POST", "url": url, "body": BODIES[url]}) for name in "ab"]
    for ending in ("\n", "\r\n"):
        content = f"\ufeff{ending.join(['', lines[0], '  ', *lines[1:], '', ''])}".encode()
        for text in (content.replace(b"\xef\xbb\xbf\n", b"\xef\xbb\xbf"), content):
            file = client.files.create(file=("in.jsonl", text), purpose="batch")
            batch = ended(client, client.batches.create(input_file_id=file.id, endpoint=url, completion_window="24h"))
            assert [line["custom_id"] for line in results(client, batch.output_file_id)] == ["a", "b"]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ({"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {}}, "line 1: url must be"),
        ({"custom_id": "a", "method": "GET", "url": "/v1/chat/completions", "body": {}}, "line 1: method must be POST"),
        ({"custom_id": "", "method": "POST", "url": "/v1/chat/completions", "body": {}}, "line 1: custom_id must have"),
        ({"method": "POST", "url": "/v1/chat/completions", "body": {}}, "line 1: Object missing required field"),
        ({"custom_id": "a" * (9 << 20)}, "line 1: must have at most 8388608 bytes"),
        (b'{"custom_id": "\xe9"}', "line 1: is not valid UTF-8"),
        (b'{"body": ' + b"[" * 5000 + b"]" * 5000 + b"}", "line 1: is nested too deeply"),
    ],
    ids=["url", "method", "empty id", "no id", "length", "encoding", "nesting"],
)
def test_file_that_is_no_batch_is_rejected(client: Any, line: dict[str, Any] | bytes, text: str) -> None:
    """The error names the line and what is wrong with it."""
    content = line if isinstance(line, bytes) else json.dumps(line).encode()
    file = client.files.create(file=("in.jsonl", content), purpose="batch")
    with pytest.raises(openai.BadRequestError, match=text) as rejection:
        client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
    assert rejection.value.param == "input_file_id"


def test_cancelled_batch_can_be_deleted(storing: Stack, client: Any) -> None:
    """A batch is cancelled, and a repeated cancellation changes nothing; a deleted one doesn't exist."""
    body = {"model": "sluice-demo", **BODIES["/v1/chat/completions"]}
    file = upload(client, "/v1/chat/completions", [body] * 500)
    with storing.engine_held():  # so that the batch cannot end before
        batch = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="1h")
        cancelled = client.batches.cancel(batch.id)
    assert cancelled.status == "cancelled"
    assert client.batches.cancel(batch.id) == client.batches.retrieve(batch.id) == cancelled
    client.delete(f"/batches/{batch.id}", cast_to=object)
    with pytest.raises(openai.NotFoundError):
        client.batches.retrieve(batch.id)
