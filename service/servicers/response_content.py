"""The content of a response as span attributes, for those who opted in.

Owns the JSON that the GenAI conventions ask for: items as messages. Made and used in one call, on the loop's thread.
"""

from __future__ import annotations

import json
from typing import Any

from sluice.v1 import content_pb2, response_event_pb2, response_item_pb2, response_pb2

from service.servicers.content import part_attribute

_INPUT = "gen_ai.input.messages"
_OUTPUT = "gen_ai.output.messages"
_INSTRUCTIONS = "gen_ai.system_instructions"
_REASONS = {"completed": "stop", "incomplete": "length"}


class ResponseContent:
    """A request's items, and its answer once it has ended."""

    def __init__(self, request: response_pb2.CreateResponseRequest) -> None:
        self._request = request
        self._outputs: list[dict[str, Any]] = []

    def add(self, event: response_event_pb2.StreamResponseResponse) -> None:
        """Note the answer that the last event has."""
        kind = event.WhichOneof("event") or ""
        if kind in _REASONS:
            parts = [part for item in getattr(event, kind).response.output for part in _output_parts(item)]
            self._outputs = [{"role": "assistant", "parts": parts, "finish_reason": _REASONS[kind]}]

    def attributes(self) -> dict[str, str]:
        """Each a JSON list."""
        attributes = {_INPUT: [_input_message(item) for item in self._request.input], _OUTPUT: self._outputs}
        if self._request.HasField("instructions"):
            attributes[_INSTRUCTIONS] = [_text(self._request.instructions)]
        return {name: json.dumps(value, ensure_ascii=False) for name, value in attributes.items()}


def _input_message(item: response_item_pb2.InputItem) -> dict[str, Any]:
    match item.WhichOneof("item"):
        case "message":
            role = content_pb2.Role.Name(item.message.role).removeprefix("ROLE_").lower()
            return {"role": role, "parts": [part_attribute(part) for part in item.message.content]}
        case "function_call":
            return {"role": "assistant", "parts": [_call(item.function_call)]}
        case "function_call_output":
            given = item.function_call_output
            part = {"type": "tool_call_response", "id": given.call_id, "response": given.output}
            return {"role": "tool", "parts": [part]}
        case _:
            return {"role": "assistant", "parts": [_reasoning(item.reasoning)]}


def _output_parts(item: response_item_pb2.OutputItem) -> list[dict[str, str]]:
    match item.WhichOneof("item"):
        case "message":
            return [_text(part.text) for part in item.message.content]
        case "function_call":
            return [_call(item.function_call)]
        case _:
            return [_reasoning(item.reasoning)]


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "content": text}


def _reasoning(item: response_item_pb2.ReasoningItem) -> dict[str, str]:
    return {"type": "reasoning", "content": item.text}


def _call(call: response_item_pb2.FunctionCallItem) -> dict[str, str]:
    return {"type": "tool_call", "id": call.call_id, "name": call.name, "arguments": call.arguments}
