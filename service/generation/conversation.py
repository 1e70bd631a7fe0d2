"""The parts of a prompt: a conversation, or raw text or tokens.

A value that a caller may have got wrong has its `field`: the path that the caller's own request calls it by.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from service.generation.output_format import JsonSchema


class Role(enum.Enum):
    """Whose message it is, by the name that chat templates use."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class TextPart:
    """A piece of a message that is text."""

    text: str


@dataclass(frozen=True, slots=True)
class ImagePart:
    """An image, by a URL, which may be a data URL, or by its file's bytes and what type they are said to have."""

    url: str
    field: str
    data: bytes = b""
    media_type: str = ""


@dataclass(frozen=True, slots=True)
class FilePart:
    """A file, by its URL or by the id that it was stored under."""

    field: str
    url: str | None = None
    file_id: str | None = None


Part: TypeAlias = TextPart | ImagePart | FilePart


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call that an assistant made. `arguments` is the text that it wrote, JSON as a rule."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `tool_call_id` is that of the call that a tool's message answers, `tool_call_field` its path."""

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
        """The text of all its parts that are text."""
        return "".join(part.text for part in self.content if isinstance(part, TextPart))

    @property
    def images(self) -> list[ImagePart]:
        """Those of its parts that are images."""
        return [part for part in self.content if isinstance(part, ImagePart)]


@dataclass(frozen=True, slots=True)
class Function:
    """A function that may be called. `parameters` is a JSON Schema as text; empty for none."""

    name: str
    description: str = ""
    parameters: str = ""
    strict: bool = False
    field: str = "tools"


class ToolMode(enum.Enum):
    """Whether functions are called."""

    NONE = "none"
    AUTO = "auto"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Which functions are called. `name` is the one that must be."""

    mode: ToolMode = ToolMode.AUTO
    name: str | None = None


class ReasoningEffort(enum.Enum):
    """How much a model is to reason before it answers."""

    NONE = "none"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages to answer.

    `reasoning_effort` None leaves it to the model's settings, then to `default_effort`, and if that is None too to its
    chat template. `schema` is what the answer must match, if the model may be told of it.
    `reasoning_budget` is the tokens of reasoning at most; None leaves it to the effort. `continues` lets the answer go
    on where the last message's text ends, in place of a turn of its own; without `opens_turn` the prompt lacks what
    begins an answer. `template_variables` is a JSON object as text, empty for none. `template_field` is what in the
    request asks for the chat template. `cuts_text` lets a truncated conversation lose the beginning of its last
    message's text, not its oldest messages.
    """

    messages: Sequence[Message]
    tools: Sequence[Function] = ()
    tool_choice: ToolChoice = ToolChoice()
    parallel_tool_calls: bool = True
    reasoning_effort: ReasoningEffort | None = None
    default_effort: ReasoningEffort | None = None
    reasoning_budget: int | None = None
    continues: bool = False
    opens_turn: bool = True
    template_variables: str = ""
    field: str = "messages"
    template_field: str = "model"
    cuts_text: bool = False
    schema: JsonSchema | None = None


@dataclass(frozen=True, slots=True)
class RawText:
    """A prompt that is taken as it is."""

    text: str
    field: str


@dataclass(frozen=True, slots=True)
class RawTokens:
    """A prompt of token ids."""

    token_ids: Sequence[int]
    field: str


Prompt: TypeAlias = Conversation | RawText | RawTokens
