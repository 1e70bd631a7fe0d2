"""Invalid requests, defined once and sent to every path of every dialect of the whole product.

Each is answered with its status, its dialect's error format, and a message that names the fault; the next request
succeeds.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import httpx
import pytest

from tests.contract.error_bodies import databricks, triton
from tests.contract.routes import ROUTES, Body, Route
from tests.e2e.stack import Stack
from tests.waiting import GUARD_S

JSON = {"content-type": "application/json"}


def routes_with(name: str) -> pytest.MarkDecorator:
    """Return the parameter `route` with those routes that have a value of this name."""
    chosen = [each for each in ROUTES if getattr(each, name) is not None]
    return pytest.mark.parametrize("route", chosen, ids=[f"{each.path} {each.required}" for each in chosen])


routes = routes_with("path")


@dataclass(frozen=True)
class Case:
    """A change that makes a valid body's bytes invalid, and a text that the error must contain."""

    name: str
    change: Callable[[bytes, Route], bytes]
    in_message: str
    status: int = 400
    content_type: str = "application/json"


def value(text: str) -> Callable[[bytes, Route], bytes]:
    """Return a change that sets the required field to the value with this JSON text."""

    def change(_: bytes, route: Route) -> bytes:
        whole = json.dumps(route.valid | {route.required: None})
        return whole.replace("null", text).encode("utf-8", "surrogateescape")

    return change


CASES = [
    Case("empty", lambda *_: b"", "line 1, column 1"),
    Case("malformed", lambda valid, _: valid[:-1] + b",\n}", "line 2, column"),
    Case("cut off", lambda valid, _: valid[:-1], "malformed JSON at line 1"),
    Case("not an object", lambda *_: b"[]", "must be an object, not a list"),
    Case("NaN", value("NaN"), "malformed JSON at line 1"),
    Case("Infinity", value("-Infinity"), "malformed JSON at line 1"),
    Case("invalid UTF-8", value('"\udcff"'), "not valid UTF-8"),
    Case("half a surrogate pair", value('"\\ud800"'), "malformed JSON at line 1"),
    Case("deep nesting", value("[" * 50_000 + "]" * 50_000), ""),  # the detail of the message depends on the type
    Case("duplicate key", lambda valid, _: valid[:-1] + b"," + valid[1:], "duplicate key"),
    Case("unknown field", lambda valid, _: valid[:-1] + b', "colour": 1}', "colour"),
    Case("not JSON", lambda valid, _: valid, "application/json", 415, "text/plain"),
    Case("too large", lambda valid, _: b" " * (17 << 20) + valid, "16777216", 413),
]


@pytest.fixture(scope="module")
def client(stack: Stack) -> Iterator[httpx.Client]:
    """An HTTP client of Envoy."""
    with httpx.Client(base_url=stack.url, timeout=GUARD_S) as client:
        yield client


def rejected(
    client: httpx.Client,
    route: Route,
    body: Body | str,
    status: int,
    *in_message: str,
    headers: Mapping[str, str] | None = None,
) -> httpx.Response:
    """Send a changed body, or the valid one to another path, and check the error and the next request."""
    path, change = (body, {}) if isinstance(body, str) else (route.path, body)
    answer = client.post(path, json=route.valid | change, headers=headers)
    assert answer.status_code == status, answer.text
    check_shape(route, answer, *in_message)
    assert client.post(route.path, json=route.valid).status_code == 200
    return answer


def check_shape(route: Route, answer: httpx.Response, *in_message: str) -> None:
    """Check the dialect's error format and headers, and the texts in its message."""
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"]
    error = route.read(answer)
    for each in in_message:
        assert each in error.message, error


@routes
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_bad_body_is_rejected(client: httpx.Client, route: Route, case: Case) -> None:
    """A body that is not a valid JSON object is rejected with the position of the fault."""
    content = case.change(json.dumps(route.valid).encode(), route)
    answer = client.post(route.path, content=content, headers={"content-type": case.content_type})
    assert answer.status_code == case.status, answer.text
    check_shape(route, answer, case.in_message)
    assert client.post(route.path, json=route.valid).status_code == 200


@routes
def test_missing_field_is_rejected(client: httpx.Client, route: Route) -> None:
    """The error names the missing field."""
    body = {name: value for name, value in route.valid.items() if name != route.required}
    answer = client.post(route.path, json=body)
    if route.loads:
        assert (answer.status_code, answer.json()["done_reason"]) == (200, "load")
        return
    assert answer.status_code == 400, answer.text
    check_shape(route, answer, route.required)


@routes
def test_value_out_of_range_is_rejected(client: httpx.Client, route: Route) -> None:
    """The error names the field and its limit."""
    name, change = route.out_of_range
    answer = rejected(client, route, change, route.statuses.get(400, 400), name)
    assert route.read(answer).field in {None, name}


@routes
def test_wrong_type_is_rejected(client: httpx.Client, route: Route) -> None:
    """A text in place of a number is rejected, not converted."""
    name, change = route.wrong_type
    rejected(client, route, change, 400, name, "must be a")


@routes
def test_unknown_model_is_not_found(client: httpx.Client, route: Route) -> None:
    """The error names the unknown model."""
    rejected(client, route, route.unknown, 404, "nobody", headers=route.unknown_headers)


@routes_with("too_long")
def test_text_too_long_is_rejected(client: httpx.Client, route: Route) -> None:
    """The error has the number of tokens and the limit."""
    assert route.too_long
    rejected(client, route, route.too_long, route.statuses.get(400, 400), "tokens", "limit")


@routes_with("too_many")
def test_too_many_items_are_rejected(client: httpx.Client, route: Route) -> None:
    """The error names the list and its limit."""
    assert route.too_many
    change, limit = route.too_many
    rejected(client, route, change, route.statuses.get(400, 400), route.required, limit)


@routes
def test_model_of_another_task_is_rejected(client: httpx.Client, route: Route) -> None:
    """An embedding model rejects chats, and a chat model rejects embeddings."""
    assert route.other_task
    rejected(client, route, route.other_task, 404 if route.statuses else 400, "; it ")


IMAGES = [(route, body) for route in ROUTES for body in route.images]


@pytest.mark.parametrize(("route", "body"), IMAGES, ids=[f"{each.path} {i}" for i, (each, _) in enumerate(IMAGES)])
def test_image_is_rejected_by_its_path(client: httpx.Client, route: Route, body: Body) -> None:
    """A text model rejects images and documents, and names their position; Azure's status is 422, with `detail.loc`."""
    answer = rejected(client, route, body, route.statuses.get(400, 400), f"{route.required}.0.content")
    error = route.read(answer)
    assert error.field is None or error.field.startswith(f"{route.required}.0.content")


@routes
def test_wrong_method_is_rejected(client: httpx.Client, route: Route) -> None:
    """A header lists the allowed methods."""
    answer = client.put(route.path, json=route.valid)
    assert answer.status_code == 405, answer.text
    assert answer.headers["allow"] == "POST"
    check_shape(route, answer, "PUT")


@pytest.mark.parametrize("prefix", ["/v1", "/v1/messages", "/serving-endpoints", "/api/2.0", "/models", "/v2", ""])
def test_unknown_path_is_not_found(client: httpx.Client, prefix: str) -> None:
    """The error names the path, in the form of the dialect with the same prefix."""
    read = next((route.read for route in ROUTES if prefix and route.path.startswith(f"{prefix}/")), ROUTES[0].read)
    read = {"/api/2.0": databricks, "/v2": triton}.get(prefix, read)
    answer = client.post(f"{prefix}/nowhere", json={})
    assert answer.status_code == 404
    assert "/nowhere" in read(answer).message


@routes_with("streaming")
def test_client_that_stops_reading_delays_no_other(stack: Stack, client: httpx.Client, route: Route) -> None:
    """While one client doesn't read its stream, others are served; after it disconnects, its resources are free."""
    body = json.dumps(route.valid | (route.streaming or {})).encode()
    head = (
        f"POST {route.path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # before connecting, since it bounds the window
        reader.connect(("127.0.0.1", stack.ports["envoy"]))
        reader.sendall(head.encode() + body)
        assert reader.recv(12) == b"HTTP/1.1 200"  # the client reads no more
        assert client.post(route.path, json=route.valid).status_code == 200
    stack.until_idle()
