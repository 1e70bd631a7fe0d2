"""Messages of a conversation in OpenAI's family, as clients send them.

Messages of an earlier answer may have fields of this server, another server or a client: fields that are not read here
are ignored. Cache marks (`cache_control`, `prompt_cache_breakpoint`) are among them: every prompt's
prefix is cached.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec
from sluice.v1 import tool_pb2

from gateway.dialects.openai_family.chat.part import Part
from gateway.dialects.openai_family.parameters.custom_input import arguments_of
from gateway.dialects.seam.failure import Failure, Reason

JsonObject: TypeAlias = dict[str, msgspec.Raw]


class FunctionCall(msgspec.Struct):
    """A function's name and its arguments: a JSON text, or the object itself, as Databricks documents it."""

    name: str
    arguments: str | JsonObject


class CustomCall(msgspec.Struct):
    """A custom tool's name and its input."""

    name: str = ""
    input: str = ""


class ToolCall(msgspec.Struct):
    """A tool call of the assistant. `type`, by default a function, determines the field that is read.

    Some servers give calls no ids.
    """

    id: str | None = None
    function: FunctionCall | None = None
    type: Literal["function", "custom"] | None = None
    custom: CustomCall | None = None

    def to_call(self, path: str) -> tool_pb2.FunctionCall:
        """Return the contract's call. Raise Failure if the field of its type is missing."""
        if self.type == "custom" and self.custom is not None:
            return tool_pb2.FunctionCall(name=self.custom.name, arguments=arguments_of(self.custom.input))
        if self.type == "custom" or self.function is None:
            field = f"{path}.{self.type or 'function'}"
            raise Failure.of_field(field, "required, but missing", Reason.MISSING_FIELD)
        return to_function_call(self.function)


class Audio(msgspec.Struct):
    """A spoken answer of another server."""

    transcript: str | None = None


class ChatMessage(msgspec.Struct):
    """One turn. `reasoning`, if it is a string, is an alias of `reasoning_content`.

    Old clients have `function_call` instead of `tool_calls`, and results with the role `function`.
    """

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Part] | None = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    reasoning: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    refusal: str | None = None
    audio: Audio | None = None
    function_call: FunctionCall | None = None

    @property
    def sent_reasoning(self) -> str | None:
        """The assistant's reasoning in either of its two fields."""
        if self.reasoning_content is not None or self.role != "assistant":
            return self.reasoning_content
        return msgspec.json.decode(self.reasoning, type=str) if bytes(self.reasoning).startswith(b'"') else None


def to_function_call(call: FunctionCall) -> tool_pb2.FunctionCall:
    """Return the contract's call of a function."""
    return tool_pb2.FunctionCall(name=call.name, arguments=json_text(call.arguments))


def json_text(value: str | JsonObject | None) -> str:
    """Return the JSON text of a value given as JSON text or as an object; empty if absent."""
    return msgspec.json.encode(value).decode() if isinstance(value, dict) else value or ""
