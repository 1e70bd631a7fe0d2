"""Servers that give the same well-formed answer to every request, so that some claims must fail."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx

from conformance.dialects import DIALECTS
from conformance.server import Server

Events = list[tuple[str, Any]]
Spoil = Callable[[Events], Events]
TEXT = ["One, ", "two, ", "three."]
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
HEAD = {"id": "c1", "created": 1, "model": "parrot"}


def _part(delta: dict[str, str], finish: str | None = None) -> tuple[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return "", HEAD | {"object": "chat.completion.chunk", "choices": [choice]}


def _openai() -> tuple[Any, Events]:
    message = {"role": "assistant", "content": "".join(TEXT)}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    whole = HEAD | {"object": "chat.completion", "choices": [choice], "usage": USAGE}
    pieces = [_part({"content": text}) for text in TEXT]
    return whole, [_part({"role": "assistant"}), *pieces, _part({}, "stop"), ("", "[DONE]")]


def _responses() -> tuple[Any, Events]:
    part = {"type": "output_text", "text": "".join(TEXT), "annotations": []}
    message: dict[str, Any] = {"id": "m1", "type": "message", "role": "assistant", "status": "completed"}
    message |= {"content": [part]}
    whole: dict[str, Any] = {"id": "r1", "object": "response", "created_at": 1, "model": "parrot", "error": None}
    whole |= {
        "tools": [], "tool_choice": "auto", "parallel_tool_calls": True, "text": {"format": {"type": "text"}},
        "truncation": "disabled", "service_tier": "default", "store": False, "background": False, "metadata": {},
        "temperature": 1, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0, "top_logprobs": 0,
        **dict.fromkeys((
            "completed_at", "incomplete_details", "previous_response_id", "instructions", "reasoning", "usage",
            "max_output_tokens", "max_tool_calls", "safety_identifier", "prompt_cache_key",
        )),
    }  # fmt: skip
    end = whole | {"status": "completed", "output": [message]}
    begin = {"response": whole | {"status": "in_progress", "output": []}}
    place = {"item_id": "m1", "output_index": 0, "content_index": 0}
    data: list[dict[str, Any]] = [
        {"type": "created"} | begin,
        {"type": "in_progress"} | begin,
        {"type": "output_item.added", "output_index": 0, "item": message | {"content": []}},
        {"type": "content_part.added", "part": part | {"text": ""}} | place,
        *({"type": "output_text.delta", "delta": text} | place for text in TEXT),
        {"type": "output_text.done", "text": "".join(TEXT)} | place,
        {"type": "content_part.done", "part": part} | place,
        {"type": "output_item.done", "output_index": 0, "item": message},
        {"type": "completed", "response": end},
    ]
    named = [each | {"type": f"response.{each['type']}", "sequence_number": n} for n, each in enumerate(data)]
    return end, [(each["type"], each) for each in named]


def _anthropic() -> tuple[Any, Events]:
    usage = {"input_tokens": 10, "output_tokens": 5}
    whole: dict[str, Any] = {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": "parrot",
        "stop_sequence": None,
    }
    start = whole | {"content": [], "stop_reason": None, "usage": usage}
    content = {"content": [{"type": "text", "text": "".join(TEXT)}]}
    data: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}} for text in TEXT),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
        {"type": "message_stop"},
    ]
    return whole | content | {"stop_reason": "end_turn", "usage": usage}, [(each["type"], each) for each in data]


def _mindie() -> tuple[Any, Events]:
    head: dict[str, Any] = {"id": "a123", "model_name": "parrot", "model_version": None}
    details = {"batch_size": 1, "queue_wait_time": 10}
    events: Events = [
        ("", head | {"text_output": text, "details": details | {"generated_tokens": count}})
        for count, text in enumerate(TEXT, 1)
    ]
    events[-1][1]["details"]["finish_reason"] = "eos_token"
    return head | {"text_output": "".join(TEXT)}, events


def _ollama() -> tuple[Any, Events]:
    head = {"model": "parrot", "created_at": "2026-11-27T08:00:00Z"}
    end: dict[str, Any] = {"done": True, "done_reason": "stop", "eval_count": 5, "prompt_eval_count": 10}
    end |= {"total_duration": 6, "load_duration": 1, "prompt_eval_duration": 2, "eval_duration": 3}

    def message(text: str) -> dict[str, Any]:
        return {"message": {"role": "assistant", "content": text}}

    lines = [head | message(text) | {"done": False} for text in TEXT]
    return head | message("".join(TEXT)) | end, [("", each) for each in (*lines, head | message("") | end)]


PARROTS = {"openai": _openai, "responses": _responses, "anthropic": _anthropic, "mindie": _mindie, "ollama": _ollama}


def answering(dialect: str, handler: Callable[[httpx.Request], httpx.Response]) -> Server:
    """Return a server whose answers are made by a function."""
    client = httpx.Client(base_url="http://server.example", transport=httpx.MockTransport(handler))
    return Server(client, DIALECTS[dialect], "parrot")


def parrot(dialect: str, spoil: Spoil = lambda events: events) -> Server:
    """Return a server that answers every POST with TEXT, streamed if requested; `spoil` changes its streams."""
    whole, events = PARROTS[dialect]()
    is_sse = dialect != "ollama"
    stream = "".join(_event(*event) if is_sse else json.dumps(event[1]) + "\n" for event in spoil(events))

    def handler(request: httpx.Request) -> httpx.Response:
        if request.method != "POST" or "count_tokens" in request.url.path:
            return httpx.Response(404, json={})
        if b'"stream":true' in request.content or request.url.path.endswith("_stream"):
            return httpx.Response(200, text=stream, headers={"content-type": DIALECTS[dialect].stream_type})
        return httpx.Response(200, json=whole)

    return answering(dialect, handler)


def _event(name: str, data: Any) -> str:
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {name}\n" if name else "") + f"data: {text}\n\n"
