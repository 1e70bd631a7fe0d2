"""The content of chats and completions as span attributes, for those who opted in.

Owns the JSON that the GenAI conventions ask for. Made and used in one call, on the loop's thread.
"""

from __future__ import annotations

import json
from typing import Any

from sluice.v1 import chat_pb2, completion_pb2, content_pb2, prompt_pb2

from service.pipeline.completion_fold import CompletionFold
from service.pipeline.fold import ChatFold


class ChatContent:
    """A request's messages, and its answer as it grows. The text of a choice that never ended is left out."""

    def __init__(self, request: chat_pb2.ChatRequest) -> None:
        self._request = request
        self._fold = ChatFold()

    def add(self, event: chat_pb2.StreamChatResponse) -> None:
        """Note what an event adds to the answer."""
        self._fold.add(event)

    def attributes(self) -> dict[str, str]:
        """`gen_ai.input.messages` and `gen_ai.output.messages`, each a JSON list."""
        inputs = [_message(message) for message in self._request.messages]
        outputs = [
            {**_message(choice.message), "finish_reason": finish_reason_name(choice.finish_reason)}
            for choice in self._fold.response.choices
        ]
        return _attributes(inputs, outputs)


class CompletionContent:
    """A request's prompts, and their continuations as they grow. The text of a choice that never ended is left out."""

    def __init__(self, request: completion_pb2.CompleteRequest) -> None:
        self._request = request
        self._fold = CompletionFold()

    def add(self, event: completion_pb2.StreamCompleteResponse) -> None:
        """Note what an event adds to the answer."""
        self._fold.add(event)

    def attributes(self) -> dict[str, str]:
        """`gen_ai.input.messages` and `gen_ai.output.messages`, each a JSON list; a prompt is a user's message."""
        inputs = [{"role": "user", "parts": [_prompt_part(prompt)]} for prompt in self._request.prompts]
        outputs = [
            {
                "role": "assistant",
                "parts": [{"type": "text", "content": choice.text}],
                "finish_reason": finish_reason_name(choice.finish_reason),
            }
            for choice in self._fold.response.choices
        ]
        return _attributes(inputs, outputs)


def finish_reason_name(reason: chat_pb2.FinishReason) -> str:
    """A finish reason as the conventions write it, such as `tool_calls`."""
    return chat_pb2.FinishReason.Name(reason).removeprefix("FINISH_REASON_").lower()


def part_attribute(part: content_pb2.ContentPart) -> dict[str, str]:
    """A piece of a message as the conventions write it."""
    match part.WhichOneof("part"):
        case "text":
            return {"type": "text", "content": part.text}
        case "image_url":
            return {"type": "uri", "modality": "image", "uri": part.image_url.url}
        case _ if part.file.HasField("url"):
            return {"type": "uri", "modality": "document", "uri": part.file.url}
        case _:
            return {"type": "file", "modality": "document", "file_id": part.file.file_id}


def _attributes(inputs: list[dict[str, Any]], outputs: list[dict[str, Any]]) -> dict[str, str]:
    return {
        "gen_ai.input.messages": json.dumps(inputs, ensure_ascii=False),
        "gen_ai.output.messages": json.dumps(outputs, ensure_ascii=False),
    }


def _prompt_part(prompt: prompt_pb2.Prompt) -> dict[str, Any]:
    if prompt.HasField("token_ids"):
        return {"type": "token_ids", "content": list(prompt.token_ids.ids)}
    return {"type": "text", "content": prompt.text}


def _message(message: content_pb2.Message) -> dict[str, Any]:
    role = content_pb2.Role.Name(message.role).removeprefix("ROLE_").lower()
    parts: list[dict[str, str]] = []
    if message.reasoning:
        parts.append({"type": "reasoning", "content": message.reasoning})
    if message.role == content_pb2.ROLE_TOOL:
        response = "".join(part.text for part in message.content)
        parts.append({"type": "tool_call_response", "id": message.tool_call_id, "response": response})
    else:
        parts += [part_attribute(part) for part in message.content]
    for call in message.tool_calls:
        function = {"name": call.function.name, "arguments": call.function.arguments}
        parts.append({"type": "tool_call", "id": call.id, **function})
    return {"role": role, "parts": parts}
