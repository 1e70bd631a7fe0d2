"""The content of a chat as span attributes, for those who opted in.

Owns the JSON that the GenAI conventions ask for. Made and used in one call, on the loop's thread.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from sluice.v1 import chat_pb2, content_pb2


@dataclass(slots=True)
class _Choice:
    text: str = ""
    reasoning: str = ""
    calls: dict[int, dict[str, str]] = field(default_factory=dict)  # by tool_call_index
    finish_reason: str = ""


class Content:
    """A request's messages, and its answer as it grows."""

    def __init__(self, request: chat_pb2.ChatRequest) -> None:
        self._request = request
        self._choices: dict[int, _Choice] = {}

    def add(self, event: chat_pb2.StreamChatResponse) -> None:
        """Note what an event adds to the answer."""
        match event.WhichOneof("event"):
            case "content_delta":
                self._choice(event.content_delta.choice_index).text += event.content_delta.text
            case "reasoning_delta":
                self._choice(event.reasoning_delta.choice_index).reasoning += event.reasoning_delta.text
            case "tool_call_delta":
                delta = event.tool_call_delta
                calls = self._choice(delta.choice_index).calls
                call = calls.setdefault(delta.tool_call_index, {"id": delta.id, "name": delta.name, "arguments": ""})
                call["arguments"] += delta.arguments
            case "choice_finished":
                finished = event.choice_finished
                self._choice(finished.choice_index).finish_reason = finish_reason_name(finished.finish_reason)

    def attributes(self) -> dict[str, str]:
        """`gen_ai.input.messages` and `gen_ai.output.messages`, each a JSON list."""
        inputs = [_message(message) for message in self._request.messages]
        outputs = [_answer(choice) for _, choice in sorted(self._choices.items())]
        return {
            "gen_ai.input.messages": json.dumps(inputs, ensure_ascii=False),
            "gen_ai.output.messages": json.dumps(outputs, ensure_ascii=False),
        }

    def _choice(self, index: int) -> _Choice:
        return self._choices.setdefault(index, _Choice())


def finish_reason_name(reason: chat_pb2.FinishReason) -> str:
    """A finish reason as the conventions write it, such as `tool_calls`."""
    return chat_pb2.FinishReason.Name(reason).removeprefix("FINISH_REASON_").lower()


def _message(message: content_pb2.Message) -> dict[str, Any]:
    role = content_pb2.Role.Name(message.role).removeprefix("ROLE_").lower()
    parts = [
        {"type": "text", "content": part.text}
        if part.HasField("text")
        else {"type": "uri", "modality": "image", "uri": part.image_url.url}
        for part in message.content
    ]
    if message.role == content_pb2.ROLE_TOOL:
        response = "".join(part.text for part in message.content)
        parts = [{"type": "tool_call_response", "id": message.tool_call_id, "response": response}]
    calls = [
        {"type": "tool_call", "id": call.id, "name": call.function.name, "arguments": call.function.arguments}
        for call in message.tool_calls
    ]
    return {"role": role, "parts": [*parts, *calls]}


def _answer(choice: _Choice) -> dict[str, Any]:
    parts: list[dict[str, str]] = []
    if choice.reasoning:
        parts.append({"type": "reasoning", "content": choice.reasoning})
    if choice.text:
        parts.append({"type": "text", "content": choice.text})
    parts += [{"type": "tool_call", **call} for _, call in sorted(choice.calls.items())]
    return {"role": "assistant", "parts": parts, "finish_reason": choice.finish_reason}
