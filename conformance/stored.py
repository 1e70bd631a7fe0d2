"""Claims about what OpenAI's API stores: responses, also in the background, conversations, files and batches."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from conformance.claim import Claim, InapplicableError, at, claims_into, cut, hold, items, only, parsed, shown
from conformance.responses import ENDS, events_of, input_tokens_of, text_of
from conformance.server import Event, Server
from conformance.server import events_of as parsed_events

ABSENT = {404, 405, 501}
BUSY = {"queued", "in_progress", "validating", "finalizing", "cancelling"}
GET, DELETE, ITEMS = "Get a model response", "Delete a model response", "List input items"
CONVERSATIONS, BACKGROUND, FILES, BATCHES = "Conversations", "Background mode", "Files", "Batch"
QUESTION = "What is the capital of France?"
CLAIMS: list[Claim[Server]] = []
claim = claims_into(CLAIMS)


def _stored(server: Server, **fields: Any) -> Any:
    """Return a stored response. Raise InapplicableError if the server stores none."""
    body = server.body({"store": True, **fields})
    answer = server.client.post(server.path(), json=body)
    if answer.status_code != 200:
        raise InapplicableError(f"nothing is stored: {answer.status_code}, {cut(answer.text)}")
    response = parsed(answer.text)
    if not at(response, "store", bool):
        raise InapplicableError("the server does not store the response")
    return response


def _called(server: Server, method: str, path: str, **options: Any) -> Any:
    """Return the JSON of a call. Raise InapplicableError if the server has no such path."""
    answer = server.client.request(method, path, **options)
    if answer.status_code in ABSENT or (answer.status_code == 400 and "store" in answer.text):
        raise InapplicableError(f"{method} {path}: {answer.status_code}, {cut(answer.text)}")
    hold(answer.status_code == 200, f"{method} {path}: {answer.status_code}, {cut(answer.text)}")
    return parsed(answer.text)


def _gone(server: Server, path: str) -> str:
    """Check that a path is not found, and return the observation."""
    return server.rejection(server.client.get(path), (404,))


def _ended(get: Callable[[], Any]) -> Any:
    """Return what `get` returns as soon as its status is an end."""
    while at(found := get(), "status", str) in BUSY:
        time.sleep(0.05)
    return found


@claim("stored.get", "A stored response is returned as it was created", GET)
def _(server: Server) -> str:
    created = _stored(server, metadata={"a": "b"})
    found = server.get(f"{server.path()}/{at(created, 'id', str)}")
    hold(found == created, f"{shown(found)} for {shown(created)}")
    return str(created["id"])


@claim("stored.unstored", "A response with `store: false` is not found", GET)
def _(server: Server) -> str:
    _stored(server)
    return _gone(server, f"{server.path()}/{at(server.ask(store=False), 'id', str)}")


@claim("stored.items", "The input items of a response have ids and types, and can be ordered", ITEMS)
def _(server: Server) -> str:
    messages = [{"role": "user", "content": text} for text in ("one", "two")]
    path = f"{server.path()}/{_stored(server, input=messages)['id']}/input_items"
    page = server.get(f"{path}?order=asc")
    hold(at(page, "object") == "list", shown(page))
    found = items(page, "data")
    hold([at(each, "content.0.text") for each in found] == ["one", "two"], shown(found))
    hold([at(page, name) for name in ("first_id", "last_id")] == [at(each, "id", str) for each in found], shown(page))
    hold(at(page, "has_more") is False, shown(page))
    rest = server.get(f"{path}?order=asc&after={found[0]['id']}")
    hold(at(rest, "data") == found[1:], shown(rest))
    return shown(found[0])


@claim("stored.delete", "A deleted response is confirmed, and not found afterwards", DELETE)
def _(server: Server) -> str:
    path = f"{server.path()}/{_stored(server)['id']}"
    hold(at(_called(server, "DELETE", path), "deleted") is True, "deleted is not true")
    return _gone(server, path)


@claim(
    "stored.continued",
    "previous_response_id puts the earlier input and output before the new input",
    "Conversation state",
)
def _(server: Server) -> str:
    first = _stored(server, input="My name is Ada.")
    second = _stored(server, input=QUESTION, previous_response_id=first["id"])
    alone = server.ask(input=QUESTION, store=False)
    counts = [input_tokens_of(each) for each in (alone, first, second)]
    hold(counts[2] > max(counts[:2]), f"input_tokens {counts}")
    hold(at(second, "previous_response_id") == first["id"], shown(second))
    return f"input_tokens {counts}"


@claim("stored.unknown", "An unknown previous_response_id is rejected", "Conversation state")
def _(server: Server) -> str:
    _stored(server)
    answer = server.client.post(server.path(), json=server.body({"previous_response_id": "resp_" + "0" * 32}))
    return server.rejection(answer, (400, 404))


@claim("conversation.state", "A conversation is created with metadata, returned, changed and deleted", CONVERSATIONS)
def _(server: Server) -> str:
    made = _called(server, "POST", "/v1/conversations", json={"metadata": {"topic": "a"}})
    hold(at(made, "object") == "conversation" and at(made, "metadata") == {"topic": "a"}, shown(made))
    at(made, "created_at", int)
    path = f"/v1/conversations/{at(made, 'id', str)}"
    hold(server.get(path) == made, shown(made))
    changed = _called(server, "POST", path, json={"metadata": {"topic": "b"}})
    hold(at(changed, "metadata") == {"topic": "b"}, shown(changed))
    hold(at(_called(server, "DELETE", path), "deleted") is True, "deleted is not true")
    return _gone(server, path)


@claim("conversation.items", "Items are created, listed in order, returned and deleted", CONVERSATIONS)
def _(server: Server) -> str:
    path = f"/v1/conversations/{_called(server, 'POST', '/v1/conversations', json={})['id']}/items"
    sent = [{"type": "message", "role": "user", "content": text} for text in ("one", "two")]
    added = items(_called(server, "POST", path, json={"items": sent}), "data")
    listed = items(server.get(f"{path}?order=asc"), "data")
    hold(listed == added and len(listed) == 2, shown(listed))
    one = f"{path}/{at(listed[0], 'id', str)}"
    hold(server.get(one) == listed[0], shown(listed[0]))
    _called(server, "DELETE", one)
    hold(server.get(path)["data"] == listed[1:], "the item is still listed")
    return _gone(server, one)


@claim("conversation.response", "A response adds its input and its output to its conversation", CONVERSATIONS)
def _(server: Server) -> str:
    made = _called(server, "POST", "/v1/conversations", json={})
    first = server.ask(input=QUESTION, conversation=made["id"])
    hold(at(first, "conversation.id") == made["id"], shown(first))
    listed = items(server.get(f"/v1/conversations/{made['id']}/items?order=asc"), "data")
    hold([at(each, "role") for each in listed if each.get("type") == "message"] == ["user", "assistant"], shown(listed))
    second = server.ask(input="And of Norway?", conversation=made["id"])
    counts = [input_tokens_of(each) for each in (first, second)]
    hold(counts[0] < counts[1], f"input_tokens {counts}")
    return shown(listed[0])


def _queued(server: Server, **fields: Any) -> Any:
    """Return a response in the background. Raise InapplicableError if the server generates none."""
    response = _stored(server, background=True, **fields)
    hold(at(response, "status") in {"queued", "in_progress"} and at(response, "background") is True, shown(response))
    return response


@claim("background.poll", "A response in the background is queued at once, and ends with its output", BACKGROUND)
def _(server: Server) -> str:
    queued = _queued(server)
    ended = _ended(lambda: server.get(f"{server.path()}/{queued['id']}"))
    hold(at(ended, "status") in ENDS and text_of(ended), shown(ended))
    return shown(ended)


@claim("background.same", "It has the text of one in the foreground", BACKGROUND)
def _(server: Server) -> str:
    queued = _queued(server)
    ended = _ended(lambda: server.get(f"{server.path()}/{queued['id']}"))
    first, second = (text_of(server.ask(store=False)) for _ in range(2))
    if first != second:
        raise InapplicableError(f"greedy answers to one request differ: {shown([first, second])}")
    hold(text_of(ended) == first, f"{text_of(ended)!r} in the background, {first!r} in the foreground")
    return repr(first)


@claim("background.stream", "Its stream continues after the event that starting_after names", BACKGROUND)
def _(server: Server) -> str:
    _queued(server)
    events = events_of(server, store=True, background=True)
    path = f"{server.path()}/{at(events[0], 'response.id', str)}?stream=true&starting_after=2"
    answer = server.client.get(path)
    hold(answer.status_code == 200, f"status {answer.status_code}: {cut(answer.text)}")
    rest: list[Event] = parsed_events(answer.text)
    hold([parsed(event.data) for event in rest] == events[3:], f"{len(rest)} events, but {len(events) - 3} are left")
    return f"{len(rest)} of {len(events)} events"


@claim(
    "background.cancel", "A cancelled response is cancelled, or ended before; a second time changes nothing", BACKGROUND
)
def _(server: Server) -> str:
    path = f"{server.path()}/{_queued(server, max_output_tokens=256)['id']}"
    first, second = (_called(server, "POST", f"{path}/cancel") for _ in range(2))
    hold(at(first, "status") in {"cancelled", *ENDS}, shown(first))
    hold(first == second == server.get(path), f"{shown(first)}, then {shown(second)}")
    return str(first["status"])


def _uploaded(server: Server, content: bytes) -> Any:
    parts = {"purpose": (None, "batch"), "file": ("requests.jsonl", content, "application/jsonl")}
    return _called(server, "POST", "/v1/files", files=parts)


@claim("files.state", "A file has its name, size and purpose, is listed, returned, read and deleted", FILES)
def _(server: Server) -> str:
    content = b'{"a": 1}\n'
    made = _uploaded(server, content)
    seen = tuple(at(made, name) for name in ("object", "bytes", "filename", "purpose"))
    hold(seen == ("file", len(content), "requests.jsonl", "batch"), shown(made))
    path = f"/v1/files/{at(made, 'id', str)}"
    hold(server.get(path) == made and made in items(server.get("/v1/files"), "data"), shown(made))
    read = server.client.get(f"{path}/content")
    hold(read.content == content, f"{cut(read.text)!r} was read")
    hold(at(_called(server, "DELETE", path), "deleted") is True, "deleted is not true")
    return _gone(server, path)


def _batch(server: Server, num_lines: int, content: Any) -> Any:
    """Return a new batch of requests whose input is `content`."""
    lines = [
        {"custom_id": f"line-{index}", "method": "POST", "url": "/v1/chat/completions",
         "body": {"model": server.model, "max_tokens": 16, "messages": [{"role": "user", "content": content}]}}
        for index in range(num_lines)
    ]  # fmt: skip
    file = _uploaded(server, "\n".join(map(json.dumps, lines)).encode())
    body = {"input_file_id": file["id"], "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    return _called(server, "POST", "/v1/batches", json=body)


@claim("batches.answers", "Each line of a batch has one answer with its custom_id", BATCHES)
def _(server: Server) -> str:
    made = _batch(server, 3, QUESTION)
    hold(at(made, "object") == "batch" and at(made, "endpoint") == "/v1/chat/completions", shown(made))
    batch = _ended(lambda: server.get(f"/v1/batches/{at(made, 'id', str)}"))
    hold(at(batch, "status") == "completed", shown(batch))
    counts = {name: at(batch, f"request_counts.{name}", int) for name in ("total", "completed", "failed")}
    hold(counts == {"total": 3, "completed": 3, "failed": 0}, shown(counts))
    answers = server.client.get(f"/v1/files/{at(batch, 'output_file_id', str)}/content")
    lines = [parsed(line) for line in answers.text.splitlines()]
    hold(sorted(at(line, "custom_id", str) for line in lines) == [f"line-{index}" for index in range(3)], shown(lines))
    for line in lines:
        hold(at(line, "response.status_code") == 200 and at(line, "error") is None, shown(line))
        at(line, "response.body.choices.0.message.content", str)
    return shown(counts)


@claim("batches.cancel", "A cancelled batch ends as cancelled, or as completed before", BATCHES)
def _(server: Server) -> str:
    made = _batch(server, 20, QUESTION)
    at(_called(server, "POST", f"/v1/batches/{made['id']}/cancel"), "status", str)
    batch = _ended(lambda: server.get(f"/v1/batches/{made['id']}"))
    hold(at(batch, "status") in {"cancelled", "completed"}, shown(batch))
    listed = items(server.get("/v1/batches"), "data")
    only((each for each in listed if at(each, "id") == made["id"]), "the batch in the list")
    return str(batch["status"])
