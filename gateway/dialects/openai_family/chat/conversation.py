"""Convert the messages of a conversation in OpenAI's family to the contract's.

The first system messages become one, and a later one a user's turn: templates have one position for them. Calls of
clients and servers without ids get ids, and an answer without content is an empty text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from sluice.v1 import content_pb2

from gateway.dialects.openai_family.chat.message import ChatMessage, ToolCall, to_function_call
from gateway.dialects.openai_family.chat.part import ReasoningPart, ThinkingPart, to_part
from gateway.dialects.seam.contract_limit import check_length
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.history import OpenCalls

_ROLES: Final = {
    "system": content_pb2.ROLE_SYSTEM,
    "developer": content_pb2.ROLE_SYSTEM,  # OpenAI's newer name
    "user": content_pb2.ROLE_USER,
    "assistant": content_pb2.ROLE_ASSISTANT,
    "tool": content_pb2.ROLE_TOOL,
    "function": content_pb2.ROLE_TOOL,  # OpenAI's older name
}
_BETWEEN_SYSTEM_MESSAGES: Final = "\n\n"
_PATH: Final = re.compile(r"^messages\.(\d+)(?:\.content\.(\d+))?")


@dataclass(slots=True)
class _Origin:
    """The caller's message of a message of the contract, and the message and part of each of its parts."""

    index: int
    parts: list[tuple[int, int]] = field(default_factory=list)


class Conversation:
    """The contract's messages, and where the caller has them. Raise Failure for what the contract can't express."""

    def __init__(self, messages: Sequence[ChatMessage]) -> None:
        self.messages: list[content_pb2.Message] = []
        self._origins: list[_Origin] = []
        self._calls = OpenCalls()
        for index, message in enumerate(messages):
            self._add(message, index)

    def caller_path(self, path: str) -> str:
        """Return the dotted `path` of the contract's request with the caller's positions of messages and parts."""
        match = _PATH.match(path)
        if match is None or int(match[1]) >= len(self._origins):
            return path
        origin, rest = self._origins[int(match[1])], path[match.end() :]
        if match[2] is None:
            return f"messages.{origin.index}{rest}"
        index, part = int(match[2]), (origin.index, int(match[2]))
        if index < len(origin.parts):
            part = origin.parts[index]
        return f"messages.{part[0]}.content.{part[1]}{rest}"

    def _add(self, message: ChatMessage, index: int) -> None:
        path = f"messages.{index}"
        role = _ROLES[message.role]
        if role == content_pb2.ROLE_SYSTEM and self.messages:
            if self.messages[-1].role == content_pb2.ROLE_SYSTEM:
                self._add_system(message, index, path)
                return
            role = content_pb2.ROLE_USER
        made = content_pb2.Message(role=role, name=message.name, reasoning=message.sent_reasoning)
        self.messages.append(made)
        self._origins.append(_Origin(index))
        self._put_content(made, message, index, path)
        self._put_calls(made, message, path)
        if role == content_pb2.ROLE_TOOL:
            made.tool_call_id = self._calls.answered(message.tool_call_id, message.name)
        elif message.tool_call_id is not None:
            made.tool_call_id = message.tool_call_id
        if not made.content and not made.tool_calls and role in {content_pb2.ROLE_ASSISTANT, content_pb2.ROLE_TOOL}:
            made.content.add(text="")

    def _add_system(self, message: ChatMessage, index: int, path: str) -> None:
        """Add the content of a further system message to the first one."""
        first = self.messages[-1]
        num_parts = len(first.content)
        self._put_content(first, message, index, path)
        if 0 < num_parts < len(first.content) and first.content[num_parts - 1].HasField("text"):
            first.content[num_parts - 1].text += _BETWEEN_SYSTEM_MESSAGES
        check_length(content_pb2.Message, "content", first.content, f"{path}.content")

    def _put_content(self, made: content_pb2.Message, message: ChatMessage, index: int, path: str) -> None:
        """Add the parts of a message. Raise Failure."""
        parts = self._origins[-1].parts
        content = message.content
        if isinstance(content, list):
            check_length(content_pb2.Message, "content", content, f"{path}.content")
            for i, part in enumerate(content):
                if isinstance(part, ThinkingPart | ReasoningPart):
                    _put_reasoning(made, message, part, f"{path}.content.{i}")
                else:
                    made.content.append(to_part(part, f"{path}.content.{i}"))
                    parts.append((index, i))
            return
        if content is None:
            content = message.refusal if message.refusal is not None else _transcript(message, path)
        if content is not None:
            made.content.add(text=content)
            parts.append((index, 0))

    def _put_calls(self, made: content_pb2.Message, message: ChatMessage, path: str) -> None:
        """Add the calls of a message. Raise Failure."""
        calls: Sequence[ToolCall] = message.tool_calls or ()
        check_length(content_pb2.Message, "tool_calls", calls, f"{path}.tool_calls")
        for i, call in enumerate(calls):
            function = call.to_call(f"{path}.tool_calls.{i}")
            made.tool_calls.add(id=self._calls.add(call.id, function.name), function=function)
        if message.function_call is not None and not calls:
            function = to_function_call(message.function_call)
            made.tool_calls.add(id=self._calls.add(None, function.name), function=function)


def _put_reasoning(
    made: content_pb2.Message, message: ChatMessage, part: ThinkingPart | ReasoningPart, path: str
) -> None:
    """Add reasoning among the content, unless the message has it in a field, too. Raise Failure for other roles."""
    if message.role != "assistant":
        raise Failure.of_field(f"{path}.type", "reasoning is only allowed in messages of the assistant")
    if message.sent_reasoning is None:
        made.reasoning += part.reasoning


def _transcript(message: ChatMessage, path: str) -> str | None:
    """Return the text of a spoken answer, or None for others. Raise Failure if it has none."""
    if message.audio is None:
        return None
    if message.audio.transcript is None:
        text = "required, but missing: audio of earlier answers is not stored"
        raise Failure.of_field(f"{path}.audio.transcript", text, Reason.MISSING_FIELD)
    return message.audio.transcript
