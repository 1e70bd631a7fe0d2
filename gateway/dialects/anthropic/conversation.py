"""Convert Anthropic's system prompt and messages to the contract's, which have one message for each tool result.

Consecutive messages of one role are one turn. Text blocks of callers are separated by a blank line; those of the
assistant are concatenated unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, assert_never

import msgspec
from sluice.v1 import content_pb2, tool_pb2

from gateway.dialects.anthropic.block import (
    Base64Source,
    Block,
    ContentSource,
    DocumentBlock,
    FileSource,
    ImageBlock,
    OnlyText,
    PlainTextSource,
    RedactedThinkingBlock,
    SearchResultBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UrlSource,
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

    def __init__(self, system: str | Sequence[OnlyText] | None) -> None:
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
                case ThinkingBlock() | RedactedThinkingBlock() | ToolUseBlock() | ToolResultBlock():
                    raise Failure.of_field(f"{item_path}.type", "is not allowed in a message of this role")
                case _:
                    self._put(self._turn(role, path, inside), block, item_path)

    def _add_answer(self, content: str | Sequence[Block], path: str) -> None:
        """Add content of the assistant."""
        message = self._turn(content_pb2.ROLE_ASSISTANT, path, f"{path}.content")
        origin = self._origins[-1]
        if isinstance(content, str):
            self._put(message, TextBlock(content), f"{path}.content", between="")
        else:
            check_length(content_pb2.Message, "content", content, f"{path}.content")
            for i, block in enumerate(content):
                item_path = f"{path}.content.{i}"
                match block:
                    case ThinkingBlock(thought):
                        origin.thinking_texts.append(thought)
                    case RedactedThinkingBlock():
                        pass
                    case ToolUseBlock():
                        origin.calls.append(item_path)
                        function = tool_pb2.FunctionCall(name=block.name, arguments=_to_arguments(block.input))
                        message.tool_calls.add(id=block.id, function=function)
                    case ToolResultBlock():
                        raise Failure.of_field(f"{item_path}.type", "is not allowed in a message of this role")
                    case _:
                        self._put(message, block, item_path, between="")
        if not message.content and not message.tool_calls:
            message.content.add(text="")  # an answer that was truncated during the thinking, or is empty
        check_length(content_pb2.Message, "tool_calls", message.tool_calls, f"{path}.content")

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
        block: TextBlock | ImageBlock | DocumentBlock | SearchResultBlock,
        item_path: str,
        *,
        between: str = "\n\n",
    ) -> None:
        """Add the last message's next part, separated from a preceding text by a blank line."""
        part = _to_part(block)
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


def _to_arguments(given: dict[str, msgspec.Raw]) -> str:
    """Return the JSON text of a call's input, or the original text if it was not a JSON object."""
    if list(given) == [INVALID_INPUT]:
        return str(msgspec.json.decode(given[INVALID_INPUT]))
    return msgspec.json.encode(given).decode()


def _to_part(block: TextBlock | ImageBlock | DocumentBlock | SearchResultBlock) -> content_pb2.ContentPart:
    """Return a content block as a part of the contract. Raise Failure for a kind that is not supported."""
    match block:
        case TextBlock(text):
            return content_pb2.ContentPart(text=text)
        case ImageBlock(FileSource(file_id)):
            return content_pb2.ContentPart(file=content_pb2.InputFile(file_id=file_id))
        case ImageBlock(source):
            assert not isinstance(source, FileSource)  # noqa: S101  the case before
            return content_pb2.ContentPart(image_url=content_pb2.ImageUrl(url=_to_url(source)))
        case SearchResultBlock(source, title, content):
            texts = [title, source, *(each.text for each in content)]
            return content_pb2.ContentPart(text="\n".join(texts))
        case DocumentBlock():
            return _to_document(block)
        case _:
            assert_never(block)


def _to_document(block: DocumentBlock) -> content_pb2.ContentPart:
    """Return a document's text preceded by title and context, or its file."""
    heads = [each for each in (block.title, block.context) if each]
    match block.source:
        case PlainTextSource(text):
            return content_pb2.ContentPart(text="\n".join([*heads, text]))
        case ContentSource(str(text)):
            return content_pb2.ContentPart(text="\n".join([*heads, text]))
        case ContentSource(content):
            for each in content:
                if isinstance(each, ImageBlock):
                    return _to_part(each)  # the service rejects it if the model takes no images
            texts = [each.text for each in content if isinstance(each, TextBlock)]
            return content_pb2.ContentPart(text="\n".join([*heads, *texts]))
        case FileSource(file_id):
            return content_pb2.ContentPart(file=content_pb2.InputFile(file_id=file_id, filename=block.title or ""))
        case Base64Source() | UrlSource() as source:
            file = content_pb2.InputFile(url=_to_url(source), filename=block.title or "")
            return content_pb2.ContentPart(file=file)
        case _:
            assert_never(block.source)


def _to_url(source: Base64Source | UrlSource) -> str:
    return source.url if isinstance(source, UrlSource) else f"data:{source.media_type};base64,{source.data}"
