"""Bad requests, defined once and sent to every path of every dialect of the whole product.

Each gets its status, its dialect's error form, and a text that names the fault; and the next request works.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import httpx
import pytest

from tests.contract.dialect_doors import DOORS, Body, Door, databricks, triton
from tests.e2e.stack import Stack
from tests.waiting import GUARD_S

JSON = {"content-type": "application/json"}
DOOR_NAMES = [f"{door.path} {door.required}" for door in DOORS]
doors = pytest.mark.parametrize("door", DOORS, ids=DOOR_NAMES)


@dataclass(frozen=True)
class Case:
    """A change that makes a valid body's bytes invalid, and a text that the error must contain."""

    name: str
    spoil: Callable[[bytes, Door], bytes]
    words: str
    status: int = 400
    content_type: str = "application/json"


def value(text: str) -> Callable[[bytes, Door], bytes]:
    """Return a change that sets the required field to the value with this JSON text."""

    def spoil(_: bytes, door: Door) -> bytes:
        whole = json.dumps(door.good | {door.required: None})
        return whole.replace("null", text).encode("utf-8", "surrogateescape")

    return spoil


CASES = [
    Case("empty", lambda *_: b"", "line 1, column 1"),
    Case("malformed", lambda good, _: good[:-1] + b",\n}", "line 2, column"),
    Case("cut off", lambda good, _: good[:-1], "malformed JSON at line 1"),
    Case("not an object", lambda *_: b"[]", "must be an object, not a list"),
    Case("NaN", value("NaN"), "malformed JSON at line 1"),
    Case("Infinity", value("-Infinity"), "malformed JSON at line 1"),
    Case("invalid UTF-8", value('"\udcff"'), "not valid UTF-8"),
    Case("half a surrogate pair", value('"\\ud800"'), "malformed JSON at line 1"),
    Case("deep nesting", value("[" * 50_000 + "]" * 50_000), ""),  # the detail of the message depends on the type
    Case("duplicate key", lambda good, _: good[:-1] + b"," + good[1:], "duplicate key"),
    Case("unknown field", lambda good, _: good[:-1] + b', "colour": 1}', "colour"),
    Case("not JSON", lambda good, _: good, "application/json", 415, "text/plain"),
    Case("too large", lambda good, _: b" " * (17 << 20) + good, "16777216", 413),
]


@pytest.fixture(scope="module")
def client(stack: Stack) -> Iterator[httpx.Client]:
    """An HTTP client of Envoy."""
    with httpx.Client(base_url=stack.url, timeout=GUARD_S) as client:
        yield client


def rejected(
    client: httpx.Client,
    door: Door,
    body: Body | str,
    status: int,
    *words: str,
    headers: Mapping[str, str] | None = None,
) -> httpx.Response:
    """Send a changed body, or the valid one to another path, and check the error and the next request."""
    path, change = (body, {}) if isinstance(body, str) else (door.path, body)
    answer = client.post(path, json=door.good | change, headers=headers)
    assert answer.status_code == status, answer.text
    check_shape(door, answer, *words)
    assert client.post(door.path, json=door.good).status_code == 200
    return answer


def check_shape(door: Door, answer: httpx.Response, *words: str) -> None:
    """Check the dialect's error form and headers, and the texts in its message."""
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"]
    error = door.read(answer)
    for each in words:
        assert each in error.message, error


@doors
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_bad_body_is_rejected(client: httpx.Client, door: Door, case: Case) -> None:
    """A body that is not a JSON object of the right form is rejected with the position of the fault."""
    content = case.spoil(json.dumps(door.good).encode(), door)
    answer = client.post(door.path, content=content, headers={"content-type": case.content_type})
    assert answer.status_code == case.status, answer.text
    check_shape(door, answer, case.words)
    assert client.post(door.path, json=door.good).status_code == 200


@doors
def test_missing_field_is_rejected(client: httpx.Client, door: Door) -> None:
    """The error names the missing field."""
    body = {name: value for name, value in door.good.items() if name != door.required}
    answer = client.post(door.path, json=body)
    assert answer.status_code == 400, answer.text
    check_shape(door, answer, door.required)


@doors
def test_value_out_of_range_is_rejected(client: httpx.Client, door: Door) -> None:
    """The error names the field and its limit."""
    name, change = door.range
    answer = rejected(client, door, change, door.statuses.get(400, 400), name)
    assert door.read(answer).field in {None, name}


@doors
def test_wrong_type_is_rejected(client: httpx.Client, door: Door) -> None:
    """A text in place of a number is rejected, not converted."""
    name, change = door.kind
    rejected(client, door, change, 400, name, "must be a")


@doors
def test_unknown_model_is_not_found(client: httpx.Client, door: Door) -> None:
    """The error names the unknown model."""
    rejected(client, door, door.unknown, 404, "nobody", headers=door.unknown_headers)


@pytest.mark.parametrize("door", [d for d in DOORS if d.too_long], ids=lambda d: f"{d.path} {d.required}")
def test_text_too_long_is_rejected(client: httpx.Client, door: Door) -> None:
    """The error has the number of tokens and the limit."""
    assert door.too_long
    rejected(client, door, door.too_long, door.statuses.get(400, 400), "tokens", "limit")


@pytest.mark.parametrize("door", [d for d in DOORS if d.too_many], ids=lambda d: f"{d.path} {d.required}")
def test_too_many_items_are_rejected(client: httpx.Client, door: Door) -> None:
    """The error names the list and its limit."""
    assert door.too_many
    change, limit = door.too_many
    rejected(client, door, change, door.statuses.get(400, 400), door.required, limit)


@doors
def test_model_of_another_task_is_rejected(client: httpx.Client, door: Door) -> None:
    """An embedding model rejects chats, and a chat model rejects embeddings."""
    assert door.other_task
    rejected(client, door, door.other_task, 404 if door.statuses else 400, "; it ")


PICTURES = [(door, picture) for door in DOORS for picture in door.pictures]


@pytest.mark.parametrize(("door", "picture"), PICTURES, ids=[f"{d.path} {i}" for i, (d, _) in enumerate(PICTURES)])
def test_picture_is_rejected_by_its_path(client: httpx.Client, door: Door, picture: Body) -> None:
    """A text model rejects other input and names its path; Azure's status is 422, with `detail.loc`."""
    answer = rejected(client, door, picture, door.statuses.get(400, 400), f"{door.required}.0.content")
    error = door.read(answer)
    assert error.field is None or error.field.startswith(f"{door.required}.0.content")


@doors
def test_wrong_method_is_rejected(client: httpx.Client, door: Door) -> None:
    """A header lists the allowed methods."""
    answer = client.put(door.path, json=door.good)
    assert answer.status_code == 405, answer.text
    assert answer.headers["allow"] == "POST"
    check_shape(door, answer, "PUT")


@pytest.mark.parametrize("prefix", ["/v1", "/v1/messages", "/serving-endpoints", "/api/2.0", "/models", "/v2", ""])
def test_unknown_path_is_not_found(client: httpx.Client, prefix: str) -> None:
    """The error names the path, in the form of the dialect with the same prefix."""
    read = next((door.read for door in DOORS if prefix and door.path.startswith(f"{prefix}/")), DOORS[0].read)
    read = {"/api/2.0": databricks, "/v2": triton}.get(prefix, read)
    answer = client.post(f"{prefix}/nowhere", json={})
    assert answer.status_code == 404
    assert "/nowhere" in read(answer).message


@pytest.mark.parametrize("door", [d for d in DOORS if d.streaming is not None], ids=lambda door: door.path)
def test_reader_that_stops_reading_harms_nobody(stack: Stack, client: httpx.Client, door: Door) -> None:
    """While one client doesn't read its stream, others are served; after it disconnects, its resources are free."""
    body = json.dumps(door.good | (door.streaming or {})).encode()
    head = (
        f"POST {door.path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # before connecting, since it bounds the window
        reader.connect(("127.0.0.1", stack.ports["envoy"]))
        reader.sendall(head.encode() + body)
        assert reader.recv(12) == b"HTTP/1.1 200"  # it reads no more
        assert client.post(door.path, json=door.good).status_code == 200
    stack.until_idle()
