"""The content of a request as span attributes, in the JSON of the GenAI conventions."""

from __future__ import annotations

from typing import Any, Final

from sluice.v1 import (
    chat_pb2,
    completion_pb2,
    content_pb2,
    prompt_pb2,
    response_item_pb2,
    response_pb2,
    text_generation_pb2,
)

_INPUT: Final = "gen_ai.input.messages"
_INSTRUCTIONS: Final = "gen_ai.system_instructions"


def chat_attributes(request: chat_pb2.ChatRequest) -> dict[str, list[Any]]:
    """Return the messages of a chat."""
    return {_INPUT: [_message(message) for message in request.messages]}


def completion_attributes(request: completion_pb2.CompleteRequest) -> dict[str, list[Any]]:
    """Return the prompts of a completion, each as a user message."""
    return {_INPUT: [{"role": "user", "parts": [_prompt_part(prompt)]} for prompt in request.prompts]}


def text_attributes(request: text_generation_pb2.GenerateTextRequest) -> dict[str, list[Any]]:
    """Return a raw prompt as a user message."""
    return {_INPUT: [{"role": "user", "parts": [_text(request.text_input)]}]}


def response_attributes(request: response_pb2.CreateResponseRequest) -> dict[str, list[Any]]:
    """Return the items of a response, each as a message, and its instructions."""
    attributes: dict[str, list[Any]] = {_INPUT: [_item_message(item) for item in request.input]}
    if request.HasField("instructions"):
        attributes[_INSTRUCTIONS] = [_text(request.instructions)]
    return attributes


def _message(message: content_pb2.Message) -> dict[str, Any]:
    """Return a message in the form of the GenAI conventions."""
    parts: list[dict[str, str]] = []
    if message.reasoning:
        parts.append({"type": "reasoning", "content": message.reasoning})
    if message.role == content_pb2.ROLE_TOOL:
        response = "".join(part.text for part in message.content)
        parts.append({"type": "tool_call_response", "id": message.tool_call_id, "response": response})
    else:
        parts += [_part(part) for part in message.content]
    for call in message.tool_calls:
        function = {"name": call.function.name, "arguments": call.function.arguments}
        parts.append({"type": "tool_call", "id": call.id, **function})
    return {"role": _role(message.role), "parts": parts}


def _item_message(item: response_item_pb2.InputItem) -> dict[str, Any]:
    """Return an input item of a response in the form of the GenAI conventions."""
    match item.WhichOneof("item"):
        case "message":
            return {"role": _role(item.message.role), "parts": [_part(part) for part in item.message.content]}
        case "function_call":
            call = item.function_call
            part = {"type": "tool_call", "id": call.call_id, "name": call.name, "arguments": call.arguments}
            return {"role": "assistant", "parts": [part]}
        case "function_call_output":
            given = item.function_call_output
            part = {"type": "tool_call_response", "id": given.call_id, "response": given.output}
            return {"role": "tool", "parts": [part]}
        case _:
            return {"role": "assistant", "parts": [{"type": "reasoning", "content": item.reasoning.text}]}


def _part(part: content_pb2.ContentPart) -> dict[str, str]:
    """Return a content part in the form of the GenAI conventions, with an image's URL or type instead of its data."""
    match part.WhichOneof("part"):
        case "text":
            return _text(part.text)
        case "image_url":
            url = part.image_url.url
            if url[:5].lower() == "data:":  # may have megabytes
                kind = url[5:105].partition(",")[0].partition(";")[0]
                return {"type": "blob", "modality": "image", "mime_type": kind}
            return {"type": "uri", "modality": "image", "uri": url}
        case "image":
            return {"type": "blob", "modality": "image", "mime_type": part.image.media_type}
        case _ if part.file.HasField("url"):
            return {"type": "uri", "modality": "document", "uri": part.file.url}
        case _:
            return {"type": "file", "modality": "document", "file_id": part.file.file_id}


def _prompt_part(prompt: prompt_pb2.Prompt) -> dict[str, Any]:
    """Return a raw prompt in the form of the GenAI conventions."""
    if prompt.HasField("token_ids"):
        return {"type": "token_ids", "content": list(prompt.token_ids.ids)}
    return _text(prompt.text)


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "content": text}


def _role(role: content_pb2.Role) -> str:
    return content_pb2.Role.Name(role).removeprefix("ROLE_").lower()
