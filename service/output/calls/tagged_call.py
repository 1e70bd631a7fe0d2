"""Convert one tool call in XML-like tags, as Qwen3-Coder and GLM write it, to JSON, character by character."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping

from service.output.calls.argument_value import allowed_types, json_value, value_schema
from service.output.calls.call_reader import WHITE_SPACE, Literal, Name, Verdict
from service.output.families.tool_syntax import Schema, TaggedCall

_MAX_KEY = 256  # characters
_STRING = frozenset({"string"})


class _State(enum.Enum):
    BEFORE_NAME = enum.auto()
    NAME = enum.auto()
    AFTER_NAME = enum.auto()
    BETWEEN = enum.auto()  # before the next parameter or the end of the call
    KEY = enum.auto()
    BEFORE_VALUE = enum.auto()
    VALUE = enum.auto()


class TaggedCallReader:
    """A `CallReader` for `TaggedCall` syntax. It is committed once a parameter begins or the call ends.

    The schema of a parameter determines the JSON type of its value. A value that can only be a string is streamed; any
    other is returned when it is complete.
    """

    def __init__(self, syntax: TaggedCall, functions: Mapping[str, Schema]) -> None:
        self.function: str | None = None
        self._syntax = syntax
        self._functions = functions
        self._literal = Literal(syntax.name_open, *syntax.also_open)
        self._state = _State.NAME if self._literal.is_complete else _State.BEFORE_NAME
        self._name = Name(functions)
        # What may follow in BETWEEN, without white space: a parameter (the next state), or the end of the call (None).
        self._next = {
            _State.KEY: "".join(syntax.key_open.split()),
            None: "".join(syntax.call_close.split()),
        }
        # Texts that end a string value: the closing tag, with or without the line end that the syntax puts before it.
        closes = syntax.around_value.strip(" ") + syntax.value_close
        self._closes = tuple({closes, syntax.value_close})
        self._text = ""  # of the current tag or key, or the part of a value that may be its closing tag
        self._value: list[str] = []  # the characters of a value that is returned when it is complete
        self._keys: set[str] = set()
        self._types = _STRING  # JSON types that the schema allows for the current value
        self._at_start = True  # of a value
        self._arguments = ""

    def take_arguments(self) -> str:
        """Return the part of the arguments that became known since the last call of this method."""
        arguments, self._arguments = self._arguments, ""
        return arguments

    def feed(self, character: str) -> Verdict:
        """Take the next character. No character may follow DONE or MALFORMED."""
        match self._state:
            case _State.VALUE:
                return self._feed_value(character)
            case _State.KEY:
                return self._feed_key(character)
            case _State.BETWEEN:
                return self._feed_between(character)
            case _State.NAME:
                return self._feed_name(character)
            case state:
                if not self._literal.feed(character):
                    return Verdict.MALFORMED
                if state is _State.BEFORE_VALUE:
                    self._text += character
                if self._literal.is_complete:
                    if state is _State.BEFORE_VALUE:
                        self._open_value()
                    self._state = {
                        _State.BEFORE_NAME: _State.NAME,
                        _State.AFTER_NAME: _State.BETWEEN,
                        _State.BEFORE_VALUE: _State.VALUE,
                    }[state]
                return Verdict.MORE

    def _feed_name(self, character: str) -> Verdict:
        """Take a character of the function's name, or the first one after it."""
        if self._name.feed(character):
            return Verdict.MORE
        if not self._name.is_known:
            return Verdict.MALFORMED
        self._literal = Literal(self._syntax.name_close)
        self._state = _State.BETWEEN if self._literal.is_complete else _State.AFTER_NAME
        return self.feed(character)

    def _feed_between(self, character: str) -> Verdict:
        """Take a character before the next parameter or the end of the call."""
        if character in WHITE_SPACE:
            return Verdict.MORE
        self._text += character
        fitting = [state for state, tag in self._next.items() if tag.startswith(self._text)]
        if not fitting:
            return Verdict.MALFORMED
        state = fitting[0]
        if self._text != self._next[state]:
            return Verdict.MORE
        self._text = ""
        if self.function is None:
            self.function = self._name.text
            self._arguments += "{"
        if state is None:
            self._arguments += "}"
            return Verdict.DONE
        self._state = state
        return Verdict.MORE

    def _feed_key(self, character: str) -> Verdict:
        """Take a character of a parameter's key."""
        self._text += character
        if not self._text.endswith(self._syntax.key_close):
            return Verdict.MORE if len(self._text) <= _MAX_KEY else Verdict.MALFORMED
        key = self._text[: -len(self._syntax.key_close)].strip()
        if not key:
            return Verdict.MALFORMED
        separator = ", " if self._keys else ""
        self._keys.add(key)
        parameters = self._functions[self._name.text]
        self._types = allowed_types(value_schema(parameters, key), parameters)
        self._arguments += f"{separator}{json.dumps(key, ensure_ascii=False)}: "
        self._text = ""
        self._literal = Literal(*(self._syntax.typed_opens or (self._syntax.value_open,)))
        self._state = _State.BEFORE_VALUE
        if self._literal.is_complete:
            self._open_value()
            self._state = _State.VALUE
        return Verdict.MORE

    def _open_value(self) -> None:
        """Begin a value. `_text` is its opening tag, which may say that the value is a string."""
        if self._syntax.typed_opens and "string" in self._types:
            is_string = "".join(self._text.split()) == "".join(self._syntax.typed_opens[0].split())
            self._types = _STRING if is_string else self._types - _STRING or _STRING
        self._text, self._at_start = "", True
        self._arguments += '"' if self._types == _STRING else ""

    def _feed_value(self, character: str) -> Verdict:
        """Take a character of a parameter's value, up to its closing tag."""
        if self._at_start and character == "\n" == self._syntax.around_value:
            self._at_start = False
            return Verdict.MORE
        self._at_start = False
        if self._types == _STRING:
            self._text += character
            return self._feed_string()
        close = self._syntax.value_close
        self._value.append(character)
        self._text = (self._text + character)[-len(close) :]
        if self._text == close:
            text = "".join(self._value)[: -len(close)]
            self._value.clear()
            if self._syntax.around_value:
                text = text.removesuffix(self._syntax.around_value)
            self._arguments += json_value(text, self._types)
            self._end_value()
        return Verdict.MORE

    def _feed_string(self) -> Verdict:
        """Emit all buffered text that can't be the beginning of the closing tag."""
        while self._text and not any(close.startswith(self._text) for close in self._closes):
            self._arguments += json.dumps(self._text[0], ensure_ascii=False)[1:-1]
            self._text = self._text[1:]
        if self._text in self._closes:
            self._arguments += '"'
            self._end_value()
        return Verdict.MORE

    def _end_value(self) -> None:
        """Expect the next parameter or the end of the call."""
        self._text = ""
        self._state = _State.BETWEEN
