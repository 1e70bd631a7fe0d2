"""Stored responses by OpenAI's client, unchanged except for the base URL, through Envoy and after a kill."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.e2e.stack import GENERATOR, HOLDABLE, Stack, started
from tests.waiting import GUARD_S, wait_until

GREEDY: dict[str, Any] = {"model": "sluice-demo", "temperature": 0, "max_output_tokens": 20}


@pytest.fixture(scope="module")
def storing() -> Iterator[Stack]:
    """A separate product, whose service the tests kill; the runner restarts it."""
    environment = HOLDABLE | {
        "SLUICE_GATEWAY_RESUME_TIMEOUT_S": str(GUARD_S),
        "SLUICE_SERVICE_STORED_RESPONSES__LEASE_S": "1",
    }
    with started(GENERATOR, "--store-responses", environment=environment) as stack:
        yield stack


@pytest.fixture
def client(storing: Stack) -> Iterator[Any]:  # its overloads know only OpenAI's models
    with openai.OpenAI(base_url=f"{storing.url}/v1", api_key="unused", timeout=GUARD_S) as client:
        yield client


def kill_service(stack: Stack) -> None:
    """Kill the service, and return when its successor answers."""
    old = stack.children()["service"]
    os.kill(old, signal.SIGKILL)
    wait_until(lambda: stack.children().get("service", old) != old)
    wait_until(lambda: httpx.get(f"{stack.url}/v1/models", timeout=GUARD_S).status_code == 200)


def test_conversation_survives_a_killed_service(storing: Stack, client: Any) -> None:
    """Create, kill, retrieve, continue, delete: the answers equal those to the complete conversation in one request."""
    first = client.responses.create(**GREEDY, store=True, input="What is the capital of France?", metadata={"a": "b"})
    again = client.responses.create(
        **GREEDY,
        input=[{"role": "user", "content": "What is the capital of France?"}, *first.output,
               {"role": "user", "content": "Why?"}],
    )  # fmt: skip
    assert (first.store, again.store) == (True, False)
    kill_service(storing)
    assert client.responses.retrieve(first.id) == first
    with client.responses.stream(**GREEDY, store=True, previous_response_id=first.id, input="Why?") as stream:
        second = stream.get_final_response()
    assert (second.output_text, second.usage.input_tokens) == (again.output_text, again.usage.input_tokens)
    assert (second.store, second.previous_response_id) == (True, first.id)
    counted = client.responses.input_tokens.count(model="sluice-demo", previous_response_id=first.id, input="Why?")
    assert counted.input_tokens == second.usage.input_tokens
    assert client.responses.retrieve(second.id).output_text == second.output_text
    (item,) = client.responses.input_items.list(second.id)
    assert (item.role, item.content[0].text) == ("user", "Why?")
    client.responses.delete(first.id)
    for call in (client.responses.retrieve, client.responses.delete, client.responses.input_items.list):
        with pytest.raises(openai.NotFoundError):
            call(first.id)
    with pytest.raises(openai.NotFoundError) as rejection:
        client.responses.create(**GREEDY, previous_response_id=second.id, input="Why?")
    assert rejection.value.param == "previous_response_id"


def test_deleted_response_leaves_no_data_in_the_state_folder(storing: Stack, client: Any) -> None:
    """Before the deletion, a file has the prompt and the id; afterwards, none has."""
    created = client.responses.create(**GREEDY, store=True, input="The code word is Quetzalcoatl.")

    def found_in(text: str) -> list[Path]:
        files = [path for path in storing.state_folder.rglob("*") if path.is_file()]
        return [path for path in files if text.encode() in path.read_bytes()]

    assert found_in("Quetzalcoatl")
    client.responses.delete(created.id)
    assert found_in("Quetzalcoatl") == found_in(created.id.removeprefix("resp_")) == []


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_every_listed_item_can_be_deleted(client: Any, order: str) -> None:
    """OpenAI's client names a deleted item as the end of its previous page."""
    items = [{"type": "message", "role": "user", "content": f"{number}"} for number in range(5)]
    conversation = client.conversations.create(items=items)
    deleted = []
    for item in client.conversations.items.list(conversation.id, limit=2, order=order):
        client.conversations.items.delete(item.id, conversation_id=conversation.id)
        deleted.append(item.content[0].text)
    assert deleted == sorted("01234", reverse=order == "desc")
    assert not client.conversations.items.list(conversation.id).data


def test_log_has_no_prompts_or_metadata(storing: Stack, client: Any) -> None:
    """Storing a response logs neither its input nor its metadata."""
    client.responses.create(**GREEDY, store=True, input="The code word is Xochimilco.", metadata={"k": "Tlaloc"})
    assert "Xochimilco" not in storing.output
    assert "Tlaloc" not in json.dumps(storing.output)


def test_background_response_survives_a_killed_service(storing: Stack, client: Any) -> None:
    """A stream that began before the kill continues without a lost or repeated event; the response is complete."""
    body = GREEDY | {"input": "Tell me about France.", "max_output_tokens": 200, "background": True}
    whole = list(client.responses.create(**body, stream=True))
    stream = client.responses.create(**body, stream=True)
    events = [next(stream) for _ in range(4)]
    created = events[0].response
    assert (created.status, client.responses.retrieve(created.id).background) == ("queued", True)
    kill_service(storing)
    events += list(stream)
    assert [event.type for event in events] == [event.type for event in whole]
    assert [event.sequence_number for event in events] == list(range(len(whole)))
    assert events[-1].response.output_text == whole[-1].response.output_text
    assert client.responses.retrieve(created.id) == events[-1].response
    again = list(client.responses.retrieve(created.id, stream=True, starting_after=3))
    assert again == events[4:]
    assert client.responses.cancel(created.id).status == events[-1].response.status
