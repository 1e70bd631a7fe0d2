"""Thinking and output formats of Anthropic's messages."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta
from sluice.v1 import chat_pb2, sampling_pb2

from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.json_body import is_given

Display: TypeAlias = Literal["summarized", "omitted"]
Effort: TypeAlias = Literal["low", "medium", "high", "xhigh", "max"]

_EFFORTS: Final = {
    "low": chat_pb2.REASONING_EFFORT_LOW,
    "medium": chat_pb2.REASONING_EFFORT_MEDIUM,
    "high": chat_pb2.REASONING_EFFORT_HIGH,
    "xhigh": chat_pb2.REASONING_EFFORT_HIGH,
    "max": chat_pb2.REASONING_EFFORT_HIGH,
}


class EnabledThinking(msgspec.Struct, tag_field="type", tag="enabled", forbid_unknown_fields=True):
    """The model thinks, for `budget_tokens` at most."""

    budget_tokens: Annotated[int, Meta(ge=1024, le=2**32 - 1)]
    display: Display | None = None


class AdaptiveThinking(msgspec.Struct, tag_field="type", tag="adaptive", forbid_unknown_fields=True):
    """The model thinks as much as `output_config.effort` allows."""

    display: Display | None = None


class DisabledThinking(msgspec.Struct, tag_field="type", tag="disabled", forbid_unknown_fields=True):
    """The model doesn't think."""


class BetweenToolsThinking(msgspec.Struct, tag_field="type", tag="between_tools", forbid_unknown_fields=True):
    """The model doesn't think. What it writes between calls of tools is text here."""


Thinking: TypeAlias = EnabledThinking | AdaptiveThinking | DisabledThinking | BetweenToolsThinking


class JsonFormat(msgspec.Struct, forbid_unknown_fields=True):
    """JSON that matches a schema."""

    type: Literal["json_schema"]
    schema: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class OutputConfig(msgspec.Struct, forbid_unknown_fields=True):
    """The format of the answer, and the effort of `adaptive` thinking."""

    effort: Effort | None = None
    format: JsonFormat | None = None


def set_thinking(request: chat_pb2.ChatRequest, thinking: Thinking | None, effort: Effort | None) -> None:
    """Set how much the model thinks. Thinking is off by default: callers expect the text in the first block."""
    match thinking:
        case EnabledThinking(budget):
            request.reasoning_effort = chat_pb2.REASONING_EFFORT_HIGH
            request.reasoning_budget = budget
        case AdaptiveThinking():
            request.reasoning_effort = _EFFORTS[effort or "high"]
        case _:
            request.reasoning_effort = chat_pb2.REASONING_EFFORT_NONE


def is_shown(thinking: Thinking | None) -> bool:
    """Return True if the answer includes the text of the thinking."""
    return not isinstance(thinking, EnabledThinking | AdaptiveThinking) or thinking.display != "omitted"


def to_constraint(output_format: JsonFormat, path: str) -> sampling_pb2.OutputConstraint:
    """Return the contract's constraint. Raise Failure naming `path` for a format without its schema."""
    if not is_given(output_format.schema):
        raise Failure.of_field(f"{path}.schema", "required, but missing", Reason.MISSING_FIELD)
    schema = sampling_pb2.JsonSchema(name="output", schema=bytes(output_format.schema).decode())
    return sampling_pb2.OutputConstraint(json_schema=schema)
