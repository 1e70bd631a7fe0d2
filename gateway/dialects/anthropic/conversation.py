"""Convert Anthropic's system prompt and messages to the contract's, which have one message for each tool result.

Consecutive messages of one role are one turn. Text blocks of callers are separated by a blank line; those of the
assistant are concatenated unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec
from sluice.v1 import content_pb2, tool_pb2

from gateway.dialects.anthropic.block import (
    Block,
    DocumentBlock,
    ImageBlock,
    OnlyText,
    RedactedThinkingBlock,
    ResultBlock,
    SearchResultBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from gateway.dialects.anthropic.block_part import to_part
from gateway.dialects.anthropic.server_block import (
    CompactionBlock,
    ContainerUploadBlock,
    ServerBlock,
    ServerCall,
    ServerCallBlock,
    ServerResultBlock,
    ToolAdditionBlock,
    ToolRemovalBlock,
    check_supported,
)
from gateway.dialects.seam.contract_limit import check_length
from gateway.dialects.seam.failure import Failure

INVALID_INPUT: Final = "INVALID_JSON"  # the only key of a call's input if its text is not a JSON object

_PATH: Final = re.compile(r"messages\.(\d+)(?:\.(\w+)(?:\.(\d+)(?:\.(.+))?)?)?$")
_ROLES: Final = {
    "system": content_pb2.ROLE_SYSTEM,
    "user": content_pb2.ROLE_USER,
    "assistant": content_pb2.ROLE_ASSISTANT,
}


class TurnMessage(msgspec.Struct):
    """One turn. An answer can be sent back unchanged, including fields that are not read here."""

    role: Literal["user", "assistant", "system"]
    content: str | list[Block]


@dataclass(slots=True)
class _Origin:
    """The origin of a message of the contract: the caller's paths of the message, its content, parts and calls."""

    path: str
    content: str
    parts: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    thinking_texts: list[str] = field(default_factory=list)


class Turns:
    """Builds the contract's messages from the caller's."""

    def __init__(self, system: str | Sequence[OnlyText] | None, conversation: Sequence[TurnMessage] = ()) -> None:
        """Start with the system prompt. `conversation` has all turns that will be added."""
        self._server_results = frozenset(_server_results(conversation))
        self._server_calls: set[str] = set()  # ids of the calls among the messages that have a result
        self._messages: list[content_pb2.Message] = []
        self._origins: list[_Origin] = []
        if system:
            instructions = system if isinstance(system, str) else [TextBlock(each.text) for each in system]
            self._add_input(content_pb2.ROLE_SYSTEM, "system", instructions, "system")

    @property
    def messages(self) -> list[content_pb2.Message]:
        """All messages added so far."""
        for message, origin in zip(self._messages, self._origins, strict=True):
            if origin.thinking_texts:
                message.reasoning = "".join(origin.thinking_texts)
        return self._messages

    def caller_name(self, path: str) -> str:
        """Return the caller's name of a dotted path: `messages.2.tool_call_id` → `messages.1.content.0…`."""
        found = _PATH.match(path)
        if found is None or int(found[1]) >= len(self._origins):
            return path
        origin, name, index, rest = self._origins[int(found[1])], found[2] or "", found[3], found[4] or ""
        if name == "tool_calls":
            of_call = rest.removeprefix("function.") if rest != "function" else ""
            item_path = origin.calls[int(index)] if index and int(index) < len(origin.calls) else origin.content
            return f"{item_path}.{of_call}" if of_call else item_path
        if name == "content":
            return origin.parts[int(index)] if index and int(index) < len(origin.parts) else origin.content
        if name == "tool_call_id":
            return f"{origin.path}.tool_use_id"
        return f"{origin.path}.{name}" if name else origin.path

    @property
    def is_open(self) -> bool:
        """Return True if the last message is the assistant's, so that the answer continues it."""
        last = self._messages[-1] if self._messages else content_pb2.Message()
        return last.role == content_pb2.ROLE_ASSISTANT and not last.tool_calls

    def add(self, message: TurnMessage, path: str) -> None:
        """Add the next message. Raise Failure naming `path` for a block that the role doesn't allow."""
        if message.role == "assistant":
            self._add_answer(message.content, path)
        else:
            # Templates accept a system prompt at the beginning only: a later one becomes a user message.
            is_first = all(each.role == content_pb2.ROLE_SYSTEM for each in self._messages)
            role = _ROLES[message.role] if is_first else content_pb2.ROLE_USER
            self._add_input(role, path, message.content, f"{path}.content")

    def _add_input(self, role: content_pb2.Role, path: str, content: str | Sequence[Block], inside: str) -> None:
        """Add content of the system or a user, and tool results."""
        if isinstance(content, str):
            self._put(self._turn(role, path, inside), TextBlock(content), inside)
            return
        check_length(content_pb2.Message, "content", content, inside)
        if not content:
            self._turn(role, path, inside)
        for i, block in enumerate(content):
            item_path = f"{inside}.{i}"
            match block:
                case ToolResultBlock() if role == content_pb2.ROLE_USER:
                    self._add_result(block, item_path)
                case TextBlock() | ImageBlock() | DocumentBlock() | SearchResultBlock():
                    self._put(self._turn(role, path, inside), block, item_path)
                case ContainerUploadBlock() | ToolAdditionBlock() | ToolRemovalBlock():
                    check_supported(block, item_path)
                case _:
                    raise Failure.of_field(f"{item_path}.type", "is not allowed in a message of this role")

    def _add_answer(self, content: str | Sequence[Block], path: str) -> None:
        """Add content of the assistant, and the results of tools that ran on Anthropic's server."""
        num_before = len(self._messages)
        if isinstance(content, str):
            self._put(self._answer(path), TextBlock(content), f"{path}.content", between="")
        else:
            check_length(content_pb2.Message, "content", content, f"{path}.content")
            for i, block in enumerate(content):
                self._add_block(block, path, f"{path}.content.{i}")
        if len(self._messages) == num_before:
            self._answer(path)  # an answer without content, or the rest of the previous one
        last = self._messages[-1]
        if last.role == content_pb2.ROLE_ASSISTANT and not last.content and not last.tool_calls:
            last.content.add(text="")  # an answer that was truncated during the thinking, or is empty

    def _add_block(self, block: Block, path: str, item_path: str) -> None:
        """Add a block of the assistant's content."""
        match block:
            case TextBlock() | ImageBlock() | DocumentBlock() | SearchResultBlock():
                self._put(self._answer(path), block, item_path, between="")
            case ThinkingBlock(thought):
                self._answer(path)
                self._origins[-1].thinking_texts.append(thought)
            case RedactedThinkingBlock():
                pass
            case ToolUseBlock():
                self._add_call(block, block.name, path, item_path)
            case ToolResultBlock():
                raise Failure.of_field(f"{item_path}.type", "is not allowed in a message of this role")
            case _:
                self._add_server_block(block, path, item_path)

    def _add_server_block(self, block: ServerBlock, path: str, item_path: str) -> None:
        match block:
            case ServerCallBlock() if block.id in self._server_results:
                self._server_calls.add(block.id)
                self._add_call(block, block.function_name, path, item_path)
            case ServerResultBlock() if block.tool_use_id in self._server_calls:
                self._add_result(ToolResultBlock(block.tool_use_id, block.text, block.is_error), item_path)
            case CompactionBlock(str(summary)):
                self._start_with(summary, path, item_path)
            case ToolAdditionBlock() | ToolRemovalBlock():
                check_supported(block, item_path)
            case _:
                pass  # it has no text

    def _answer(self, path: str) -> content_pb2.Message:
        """Return the last message if it is the assistant's, or a new one of the turn at `path`."""
        return self._turn(content_pb2.ROLE_ASSISTANT, path, f"{path}.content")

    def _add_call(self, block: ToolUseBlock | ServerCall, name: str, path: str, item_path: str) -> None:
        message = self._answer(path)
        self._origins[-1].calls.append(item_path)
        message.tool_calls.add(
            id=block.id, function=tool_pb2.FunctionCall(name=name, arguments=_to_arguments(block.input))
        )
        check_length(content_pb2.Message, "tool_calls", message.tool_calls, f"{path}.content")

    def _start_with(self, summary: str, path: str, item_path: str) -> None:
        """Replace all messages but the system prompt by their summary, and begin the rest of the assistant's turn."""
        start = 1 if self._messages[0].role == content_pb2.ROLE_SYSTEM else 0
        del self._messages[start:], self._origins[start:]
        self._put(self._new(content_pb2.ROLE_USER, path, f"{path}.content"), TextBlock(summary), item_path)
        self._answer(path)

    def _add_result(self, block: ToolResultBlock, item_path: str) -> None:
        message = self._new(content_pb2.ROLE_TOOL, item_path, f"{item_path}.content")
        message.tool_call_id = block.tool_use_id
        if isinstance(block.content, str) or block.content is None:
            self._put(message, TextBlock(block.content or ""), f"{item_path}.content")
        else:
            check_length(content_pb2.Message, "content", block.content, f"{item_path}.content")
            for i, each in enumerate(block.content):
                self._put(message, each, f"{item_path}.content.{i}")
        if not message.content:
            message.content.add(text="")
        first = message.content[0]
        # Templates have no other way to mark an error. A part that is not text is unchanged.
        if block.is_error and first.HasField("text") and not first.text.lower().startswith("error"):
            first.text = f"Error: {first.text}"

    def _put(
        self,
        message: content_pb2.Message,
        block: ResultBlock,
        item_path: str,
        *,
        between: str = "\n\n",
    ) -> None:
        """Add the last message's next part, separated from a preceding text by a blank line."""
        part = to_part(block)
        if message.content and part.HasField("text"):
            last = message.content[-1]
            if last.HasField("text") and last.text and not last.text.endswith("\n"):
                last.text += between
        self._origins[-1].parts.append(item_path)
        message.content.append(part)

    def _turn(self, role: content_pb2.Role, path: str, content: str) -> content_pb2.Message:
        """Return the last message if it has this role, or a new one."""
        if self._messages and self._messages[-1].role == role:
            return self._messages[-1]
        return self._new(role, path, content)

    def _new(self, role: content_pb2.Role, path: str, content: str) -> content_pb2.Message:
        self._origins.append(_Origin(path, content))
        self._messages.append(content_pb2.Message(role=role))
        return self._messages[-1]


def _server_results(conversation: Sequence[TurnMessage]) -> Iterator[str]:
    """Yield the ids of the calls of Anthropic's tools that have a result."""
    for message in conversation:
        for block in message.content if message.role == "assistant" and not isinstance(message.content, str) else ():
            if isinstance(block, ServerResultBlock):
                yield block.tool_use_id


def _to_arguments(given: dict[str, msgspec.Raw]) -> str:
    """Return the JSON text of a call's input, or the original text if it was not a JSON object."""
    if list(given) == [INVALID_INPUT]:
        return str(msgspec.json.decode(given[INVALID_INPUT]))
    return msgspec.json.encode(given).decode()
