"""Prompts: a conversation, or raw text or tokens.

A value that may be invalid has its `field`: its path in the client's request, for errors.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from service.generation.formats.output_format import JsonSchema

MAX_CHARACTERS = 4_194_304  # of all strings of a conversation; a raw prompt has the same limit in the contract


class Role(enum.Enum):
    """The author of a message, by the name in chat templates."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class TextPart:
    """A text in a message."""

    text: str


@dataclass(frozen=True, slots=True)
class ImagePart:
    """An image, by its URL, which may be a data URL, or by its file's bytes and declared media type."""

    url: str
    field: str
    data: bytes = b""
    media_type: str = ""


@dataclass(frozen=True, slots=True)
class FilePart:
    """A file, by its URL or by its id in the store."""

    field: str
    url: str | None = None
    file_id: str | None = None


Part: TypeAlias = TextPart | ImagePart | FilePart


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call by an assistant. `arguments` is the text that it wrote, usually JSON."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `tool_call_id` is the id of the call that a tool's message answers, `tool_call_field` its path."""

    role: Role
    content: Sequence[Part] = ()
    tool_calls: Sequence[FunctionCall] = ()
    tool_call_id: str = ""
    name: str | None = None
    reasoning: str | None = None
    field: str = "messages"
    tool_call_field: str = ""

    @property
    def text(self) -> str:
        """The text of all text parts."""
        return "".join(part.text for part in self.content if isinstance(part, TextPart))

    @property
    def num_characters(self) -> int:
        """The number of characters of all strings except those of images and files."""
        calls = sum(len(call.id) + len(call.name) + len(call.arguments) for call in self.tool_calls)
        num_own = len(self.tool_call_id) + len(self.name or "") + len(self.reasoning or "")
        return sum(len(part.text) for part in self.content if isinstance(part, TextPart)) + calls + num_own

    @property
    def images(self) -> list[ImagePart]:
        """The image parts."""
        return [part for part in self.content if isinstance(part, ImagePart)]


@dataclass(frozen=True, slots=True)
class Function:
    """A function that may be called. `parameters` is a JSON Schema as text; empty for none."""

    name: str
    description: str = ""
    parameters: str = ""
    strict: bool = False
    field: str = "tools"

    @property
    def num_characters(self) -> int:
        """The number of characters of all strings."""
        return len(self.name) + len(self.description) + len(self.parameters)


class ToolMode(enum.Enum):
    """Whether functions may or must be called."""

    NONE = "none"
    AUTO = "auto"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """The functions that may or must be called. `name` is a function that must be called."""

    mode: ToolMode = ToolMode.AUTO
    name: str | None = None


class ReasoningEffort(enum.Enum):
    """The amount of reasoning before an answer."""

    NONE = "none"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages to answer."""

    messages: Sequence[Message]
    tools: Sequence[Function] = ()
    tool_choice: ToolChoice = ToolChoice()
    parallel_tool_calls: bool = True
    reasoning_effort: ReasoningEffort | None = None  # None: the model's setting, `default_effort` or the template
    default_effort: ReasoningEffort | None = None
    reasoning_budget: int | None = None  # the limit of reasoning tokens; None: by the effort
    continues: bool = False  # whether the answer continues the last message's text instead of beginning a turn
    opens_turn: bool = True  # whether the prompt ends with the beginning of an answer
    template_variables: str = ""  # a JSON object as text; empty for none
    field: str = "messages"
    template_field: str = "model"  # the field of the request that requires a chat template
    cuts_text: bool = False  # whether truncation cuts the start of the last message instead of the oldest messages
    schema: JsonSchema | None = None  # of the answer, for templates that show it to the model

    @property
    def num_characters(self) -> int:
        """The number of characters of all strings that a template may show, which bounds the work of rendering."""
        described = self.schema
        shown = len(described.schema) + len(described.name) + len(described.description) if described else 0
        return (
            sum(message.num_characters for message in self.messages)
            + sum(function.num_characters for function in self.tools)
            + len(self.template_variables)
            + shown
        )


@dataclass(frozen=True, slots=True)
class RawText:
    """A prompt of text that is used unchanged."""

    text: str
    field: str


@dataclass(frozen=True, slots=True)
class RawTokens:
    """A prompt of token ids."""

    token_ids: Sequence[int]
    field: str


Prompt: TypeAlias = Conversation | RawText | RawTokens
