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

    `number_key` is the key of the call's number, a string before the name; `id_key` is the key of the call's id, which
    may follow the arguments. The members of an `is_indented` object may be on separate lines. A `keyed` object has the
    name as its only key: `{"get_weather": {…}}`.
    """

    name_key: str = "name"
    arguments_key: str = "arguments"
    number_key: str = ""
    id_key: str = ""
    is_indented: bool = False
    keyed: bool = False


@dataclass(frozen=True, slots=True)
class NamedCall:
    """A name followed by the arguments as a JSON object, without an object around both.

    `between` is written between them, after a colon and the call's number if it `is_numbered`; `between_pattern` is
    accepted there. `after` has the texts after the arguments, read in any layout; `after_text` is the family's layout.
    `id_marker` and the call's id may precede `between`.
    """

    before: str = ""
    between: str = ""
    between_pattern: str = r"\s*"
    after: tuple[str, ...] = ()
    after_text: str = ""
    is_numbered: bool = False
    id_marker: str = ""


@dataclass(frozen=True, slots=True)
class TaggedCall:
    """A name and parameters in tags, with values as text: strings verbatim, anything else as JSON.

    White space is the family's layout; other layouts are accepted between the tags, and written without white space if
    the family `is_compact_too`. A line end around a value is not part of it if `around_value` has one. `also_open` are
    other texts that the family writes as `name_open`. `typed_opens`, in place of `value_open`, are written before a
    value that is a verbatim string, and before one that is JSON.
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
    is_compact_too: bool = False
    also_open: tuple[str, ...] = ()
    typed_opens: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PythonicCall:
    """A call in Python's syntax, with keyword arguments only: `get_weather(city='Oslo', days=3)`.

    JSON's spellings of strings and constants are accepted, too.
    """


@dataclass(frozen=True, slots=True)
class BracedCall:
    """`call:get_weather{city:<escape>Oslo<escape>,days:3}`: keys are bare, and strings are enclosed in `quote`.

    The family's templates sort the keys.
    """

    before: str = "call:"
    quote: str = "<escape>"


@dataclass(frozen=True, slots=True)
class ChannelCall:
    """A message to a function in a channel of its own; reasoning and answers are messages in other channels."""


@dataclass(frozen=True, slots=True)
class TemplatedCall:
    """A call that a tokenizer's `response_template` parses. There is no description of how to write one."""

    template: Mapping[str, Any]


Payload: TypeAlias = ObjectCall | NamedCall | TaggedCall | PythonicCall | BracedCall | ChannelCall | TemplatedCall


@dataclass(frozen=True, slots=True)
class ToolSyntax:
    """One family's syntax of calls.

    `begin` and `end` enclose a call, or a list of calls; empty if the family has none. `also_begin` is accepted as
    `begin`, and written only if the family `writes_also_begin`. `opens_call`, a call's first tag, opens a call if the
    model omits `begin`. A `bare` syntax also accepts calls without `begin`, but only at the start of the answer.
    `marks` identify a chat template: one that contains all texts of a tuple belongs to this family. Otherwise `tokens`
    of the tokenizer identify it. The other fields are the family's layout, whose white space may be missing.
    """

    name: str
    families: str  # shown in the docs
    payload: Payload = ObjectCall()
    begin: str = ""
    end: str = ""
    also_begin: tuple[str, ...] = ()
    writes_also_begin: bool = False
    opens_call: str = ""
    bare: bool = False
    separators: str = ""  # allowed between bare calls, in addition to white space
    before_call: str = ""
    after_call: str = ""
    between_calls: str = ""
    begins_each_call: bool = True  # whether `begin` and `end` enclose each call or all of them
    also_brackets: bool = False  # whether brackets may enclose the calls
    marks: tuple[tuple[str, ...], ...] = ()
    tokens: tuple[str, ...] = ()
    id_prefix: str = "call_"
    id_length: int = 24
    id_names_function: bool = False  # whether ids are `functions.NAME:NUMBER`, counted over the conversation

    @property
    def begins(self) -> tuple[str, ...]:
        """The texts that are accepted as the beginning of calls."""
        return (self.begin, *self.also_begin) if self.begin else self.also_begin

    @property
    def markers(self) -> tuple[str, ...]:
        """All fixed texts of the syntax, some of which may be control tokens."""
        match self.payload:
            case NamedCall() as call:
                inner = (call.before, call.id_marker, call.between, *call.after)
            case TaggedCall() as tags:
                inner = (
                    *(tags.name_open, *tags.also_open, tags.name_close, tags.key_open, tags.key_close),
                    *(tags.value_open, *tags.typed_opens, tags.value_close, tags.call_close),
                )
            case BracedCall(before, quote):
                inner = (before, quote)
            case ChannelCall():
                inner = CHANNEL_MARKERS
            case _:
                inner = ()
        return tuple(text for text in (*self.begins, self.end, *inner) if text)

    def call_id(self, unique: str, name: str = "", number: int = 0) -> str:
        """Return the id of a call, derived from a unique text, in the form that the family's templates accept.

        `number` is the number of earlier calls in the conversation.
        """
        if self.id_names_function:
            return f"functions.{name}:{number}"
        digest = hashlib.blake2b(unique.encode(), digest_size=self.id_length).digest()
        return self.id_prefix + "".join(_ALPHANUMERIC[byte % len(_ALPHANUMERIC)] for byte in digest)


# Of harmony: a message is START, a header, MESSAGE, its text, and END, CALL or RETURN.
START, CHANNEL, MESSAGE, CONSTRAIN = "<|start|>", "<|channel|>", "<|message|>", "<|constrain|>"
END, CALL, RETURN = "<|end|>", "<|call|>", "<|return|>"
CHANNEL_MARKERS = (START, CHANNEL, MESSAGE, CONSTRAIN, END, CALL, RETURN)
