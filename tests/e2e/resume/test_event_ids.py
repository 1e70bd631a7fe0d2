"""Streams of each dialect that resume after any event's id, through Envoy."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from typing import Any

import httpx
import pytest

from tests.e2e.stack import Stack
from tests.waiting import GUARD_S

Event = dict[str, str]
NUM_CUTS = 6
COMMON: dict[str, Any] = {"model": "sluice-demo", "stream": True, "seed": 5, "temperature": 1.5}
QUESTION = {"role": "user", "content": "Tell me of the house, the water and the moon."}
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def events_of(lines: Iterable[str]) -> list[Event]:
    """Return the events of a stream, without comments."""
    events: list[Event] = [{}]
    for line in lines:
        name, _, value = line.partition(":")
        if line and name:
            events[-1][name] = value.removeprefix(" ")
        elif not line and events[-1]:
            events.append({})
    return [event for event in events if event]


def data_of(events: Iterable[Event]) -> list[Any]:
    return [json.loads(event["data"]) for event in events if event["data"] != "[DONE]"]


def completion(events: list[Event]) -> Any:
    """Return texts, finish reasons and logprobs by choice, including text offsets."""
    found: dict[int, dict[str, Any]] = {}
    for chunk in data_of(events):
        for choice in chunk["choices"]:
            one = found.setdefault(choice["index"], {"text": "", "ends": []})
            one["text"] += choice["text"]
            one["ends"] += [choice["finish_reason"]] if choice["finish_reason"] else []
            for name, values in (choice["logprobs"] or {}).items():
                one.setdefault(name, []).extend(values or [])
    return found, {(chunk["id"], chunk["created"]) for chunk in data_of(events)}, events[-1]["data"]


def response(events: list[Event]) -> Any:
    """Return all events, with consecutive deltas joined, and check that sequence numbers increase by one."""
    found = data_of(events)
    assert [each.pop("sequence_number") for each in found] == list(range(len(found)))
    rest: list[Any] = []
    for each in found:
        each.get("response", {}).pop("completed_at", None)  # a resumed stream ends later
        usage = each.get("response", {}).get("usage") or {}
        usage.pop("input_tokens_details", None)  # a prompt that had not started may find more in the cache
        if each["type"].endswith(".delta") and rest and rest[-1]["type"] == each["type"]:
            rest[-1]["delta"] += each["delta"]
            rest[-1].get("logprobs", []).extend(each.get("logprobs", []))
        else:
            rest.append(each)
    return rest


def text_generation(events: list[Event]) -> Any:
    found = data_of(events)
    end = found[-1]["details"]
    return "".join(each["text_output"] for each in found), end["finish_reason"], end["generated_tokens"], found[0]["id"]


def messages(events: list[Event]) -> Any:
    """Return Anthropic's events, with the deltas of a block joined."""
    rest: list[Any] = []
    for each in data_of(events):
        if each["type"] == "message_start":
            each["message"].pop("usage")  # a prompt that had not started may find more in the cache
        each.pop("usage", None)
        if each["type"] == "content_block_delta" and rest[-1]["type"] == each["type"]:
            for name, value in each["delta"].items():
                rest[-1]["delta"][name] += value if name != "type" else ""
        elif each["type"] != "ping":
            rest.append(each)
    return rest


def cohere(events: list[Event]) -> Any:
    """Return Cohere's events, with the deltas of an item or a call joined."""
    rest: list[Any] = []
    for each in data_of(events):
        if each["type"] == "message-end":
            each["delta"]["usage"].pop("cached_tokens")  # a prompt that had not started may find more in the cache
        if each["type"].endswith("-delta") and rest[-1]["type"] == each["type"]:
            before, more = rest[-1]["delta"]["message"], each["delta"]["message"]
            for name in more.keys() & {"content"}:
                before[name]["text"] += more[name]["text"]
            for name in more.keys() & {"tool_calls"}:
                before[name]["function"]["arguments"] += more[name]["function"]["arguments"]
        else:
            rest.append(each)
    return rest


def chat(events: list[Event]) -> Any:
    """Return roles, texts, reasoning, calls with their ids, and usage."""
    found: dict[Any, Any] = {}
    for chunk in data_of(events):
        found[chunk["id"], chunk["created"]] = chunk.get("usage")
        for choice in chunk["choices"]:
            delta = dict(choice["delta"])
            for call in delta.pop("tool_calls", None) or []:
                key = (choice["index"], "call", call["index"])
                found[key] = found.get(key, "") + call.get("id", "") + call["function"]["arguments"]
            for name, value in delta.items():
                found[choice["index"], name] = found.get((choice["index"], name), "") + (value or "")
            if choice["finish_reason"]:
                found[choice["index"], "end"] = choice["finish_reason"]
    return found, events[-1]["data"]


TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}]
CASES: dict[str, tuple[str, dict[str, Any], Callable[[list[Event]], Any]]] = {
    "chat": (
        "/v1/chat/completions",
        {"messages": [QUESTION], "tools": TOOLS, "tool_choice": "required", "n": 2, "max_tokens": 60},
        chat,
    ),
    "completion": (
        "/v1/completions",
        {"prompt": ["The house", "The moon"], "n": 2, "logprobs": 2, "echo": True, "max_tokens": 30},
        completion,
    ),
    "response": (
        "/v1/responses",
        {"input": "Tell me of the house.", "max_output_tokens": 40, "top_logprobs": 1},
        response,
    ),
    "response that calls": (
        "/v1/responses",
        {
            "input": "Tell me of the house.",
            "tools": [{"type": "function", "name": "weather", "parameters": PARAMETERS}],
            "tool_choice": "required",
        },
        response,
    ),
    "databricks": (
        "/serving-endpoints/sluice-demo/invocations",
        {"messages": [QUESTION], "max_tokens": 50, "stream_options": {"include_usage": True}},
        chat,
    ),
    "azure": ("/chat/completions?api-version=2024-05-01-preview", {"messages": [QUESTION], "max_tokens": 50}, chat),
    "anthropic": (
        "/v1/messages",
        {"messages": [QUESTION], "max_tokens": 50},
        messages,
    ),
    "cohere": (
        "/v2/chat",
        {"messages": [QUESTION], "max_tokens": 50},
        cohere,
    ),
    "cohere that calls": (
        "/v2/chat",
        {"messages": [QUESTION], "tools": TOOLS, "tool_choice": "REQUIRED", "max_tokens": 60},
        cohere,
    ),
    "mindie": (
        "/v2/models/sluice-demo/generate_stream",
        {
            "text_input": "The house",
            "parameters": {"max_new_tokens": 200, "details": True, "do_sample": True, "seed": 5},
        },
        text_generation,
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_stream_resumes_after_any_event(stack: Stack, name: str) -> None:
    """The received events and the resumed stream together equal an unbroken stream."""
    path, fields, fold = CASES[name]
    body = fields if name == "mindie" else COMMON | fields
    if name == "anthropic":
        body = {key: value for key, value in body.items() if key != "seed"} | {"temperature": 1}
    headers = {"x-sluice-event-ids": "true"}
    draw = random.Random(name)
    async with httpx.AsyncClient(base_url=stack.url, timeout=GUARD_S) as http:

        async def read(**more: str) -> list[Event]:
            async with http.stream("POST", path, json=body, headers=headers | more) as answer:
                lines = [line async for line in answer.aiter_lines()]
                assert answer.status_code == 200, lines
                return events_of(lines)

        events = await read()
        assert len({event["id"] for event in events}) == len(events)
        for cut in [1, *draw.choices(range(1, max(len(events), 2)), k=NUM_CUTS)]:  # a fast stream may have one event
            joined = events[:cut] + await read(**{"last-event-id": events[cut - 1]["id"]})
            assert fold(joined) == fold(events), cut


async def test_streams_have_event_ids_only_on_request(stack: Stack) -> None:
    """Event ids are opt-in, because some clients raise on lines other than data."""
    async with httpx.AsyncClient(base_url=stack.url, timeout=GUARD_S) as http:
        body = COMMON | {"messages": [QUESTION], "max_tokens": 5}
        answer = await http.post("/v1/chat/completions", json=body)
    assert all("id" not in event for event in events_of(answer.text.splitlines()))
