"""The syntax of a model family's tool calls: one description for parser, grammar and template check.

`tool_families` has a row for each family.
"""

from __future__ import annotations

import hashlib
import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Schema: TypeAlias = Mapping[str, Any]  # a function's parameters, as JSON Schema
_ALPHANUMERIC = string.ascii_letters + string.digits


@dataclass(frozen=True, slots=True)
class ObjectCall:
    """A JSON object: `{"name": …, "arguments": …}`.

    `lead` is what the family writes before the name. One that is `keyed` has the name as its only key:
    `{"get_weather": {…}}`.
    """

    name_key: str = "name"
    arguments_key: str = "arguments"
    lead: str = ""
    keyed: bool = False


@dataclass(frozen=True, slots=True)
class NamedCall:
    """A name and then the arguments as a JSON object, without an object around them.

    `between` stands between the two, behind a colon and the call's number where it `is_numbered`; `between_pattern` is
    what is read there. `after` stands behind the arguments: its parts in any layout, `after_text` in the family's.
    """

    before: str = ""
    between: str = ""
    between_pattern: str = r"\s*"
    after: tuple[str, ...] = ()
    after_text: str = ""
    is_numbered: bool = False


@dataclass(frozen=True, slots=True)
class TaggedCall:
    """A name and parameters between tags, each value as text: a string as it is, anything else as JSON.

    The white space is how the family lays it out; line ends around a value are no part of it where `around_value` has
    one. What is read may have others between the tags.
    """

    name_open: str
    name_close: str
    key_open: str
    key_close: str
    value_close: str
    call_close: str
    value_open: str = ""
    after_name: str = "\n"
    before_value: str = ""
    around_value: str = ""
    after_value: str = "\n"


@dataclass(frozen=True, slots=True)
class PythonicCall:
    """A call as Python writes it, with keyword arguments only: `get_weather(city="Oslo", days=3)`.

    `true`, `false` and `none` are how the family writes these values; both Python's and JSON's are read.
    """

    true: str = "True"
    false: str = "False"
    none: str = "None"


@dataclass(frozen=True, slots=True)
class BracedCall:
    """`call:get_weather{city:<escape>Oslo<escape>,days:3}`: keys are bare, and `quote` stands around a string."""

    before: str = "call:"
    quote: str = "<escape>"


@dataclass(frozen=True, slots=True)
class ChannelCall:
    """A message to a function in a channel of its own; reasoning and answers are messages in other channels."""


@dataclass(frozen=True, slots=True)
class TemplatedCall:
    """Whatever a tokenizer's `response_template` reads as a call; nobody knows how to write one."""

    template: Mapping[str, Any]


Payload: TypeAlias = ObjectCall | NamedCall | TaggedCall | PythonicCall | BracedCall | ChannelCall | TemplatedCall


@dataclass(frozen=True, slots=True)
class ToolSyntax:
    """One family's way to write calls.

    `begin` and `end` stand around a call, or around a list of calls; empty where the family has none. `also_begin` is
    read as `begin` is, but not written; `opens_call`, a call's first tag, opens one where the model forgets `begin`. A
    `bare` syntax takes calls without `begin` too, but only where the answer starts. `marks` are texts by which a chat
    template is known: one that writes all of a tuple's is this family's. A template without any is known by `tokens` of
    its tokenizer. The rest is how the family itself spaces what it writes.
    """

    name: str
    families: str  # for readers of the docs
    payload: Payload = ObjectCall()
    begin: str = ""
    end: str = ""
    also_begin: tuple[str, ...] = ()
    opens_call: str = ""
    bare: bool = False
    separators: str = ""  # what may stand between bare calls, beside white space
    before_call: str = ""
    after_call: str = ""
    between_calls: str = ""
    begins_each_call: bool = True  # whether `begin` and `end` stand around each call or around all of them
    marks: tuple[tuple[str, ...], ...] = ()
    tokens: tuple[str, ...] = ()
    id_prefix: str = "call_"
    id_length: int = 24
    id_names_function: bool = False  # whether ids are `functions.NAME:NUMBER`, counted over the conversation

    @property
    def begins(self) -> tuple[str, ...]:
        """What is read as the beginning of calls."""
        return (self.begin, *self.also_begin) if self.begin else self.also_begin

    @property
    def markers(self) -> tuple[str, ...]:
        """All texts that the family writes and no call holds, for those who look for control tokens among them."""
        match self.payload:
            case NamedCall() as call:
                inner = (call.before, call.between, *call.after)
            case TaggedCall() as tags:
                inner = (
                    *(tags.name_open, tags.name_close, tags.key_open, tags.key_close),
                    *(tags.value_open, tags.value_close, tags.call_close),
                )
            case BracedCall(before, quote):
                inner = (before, quote)
            case ChannelCall():
                inner = CHANNEL_MARKERS
            case _:
                inner = ()
        return tuple(text for text in (*self.begins, self.end, *inner) if text)

    def call_id(self, place: str, name: str = "", number: int = 0) -> str:
        """The id of a call at a place that no other call has, in the form that the family's templates take back.

        `number` counts the calls of the conversation.
        """
        if self.id_names_function:
            return f"functions.{name}:{number}"
        digest = hashlib.blake2b(place.encode(), digest_size=self.id_length).digest()
        return self.id_prefix + "".join(_ALPHANUMERIC[byte % len(_ALPHANUMERIC)] for byte in digest)


# Of harmony: a message is START, a header, MESSAGE, its text, and END, CALL or RETURN.
START, CHANNEL, MESSAGE, CONSTRAIN = "<|start|>", "<|channel|>", "<|message|>", "<|constrain|>"
END, CALL, RETURN = "<|end|>", "<|call|>", "<|return|>"
CHANNEL_MARKERS = (START, CHANNEL, MESSAGE, CONSTRAIN, END, CALL, RETURN)
