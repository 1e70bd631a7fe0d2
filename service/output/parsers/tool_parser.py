"""Find tool calls in the text of an answer.

A `CallReader` for the family's payload reads the inside of a call. The parser processes single characters, so its
result does not depend on how the text is split into chunks.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping

from service.generation.outputs.events import Delta, Text, ToolArguments, ToolCall
from service.output.calls.call_object import CallObject
from service.output.calls.call_reader import WHITE_SPACE, CallReader, Verdict
from service.output.calls.keyword_call import KeywordCallReader
from service.output.calls.named_call import NamedCallReader
from service.output.calls.tagged_call import TaggedCallReader
from service.output.families.tool_syntax import (
    BracedCall,
    ChannelCall,
    NamedCall,
    ObjectCall,
    PythonicCall,
    Schema,
    TaggedCall,
    TemplatedCall,
    ToolSyntax,
)

_BLANKS = re.compile(f"[{WHITE_SPACE}]+")
_ANY_BLANKS = re.compile(r"\s+")  # white space as in `str.split`


class _State(enum.Enum):
    START = enum.auto()  # of a bare answer, before its first character other than white space
    TEXT = enum.auto()
    FRAME = enum.auto()  # after the begin marker, or between calls
    ELEMENT = enum.auto()  # before the next call of a list
    CALL = enum.auto()
    AFTER_CALL = enum.auto()


class ToolCallParser:
    """Splits text into content and calls of `functions`, whose parameters' schemas determine the types of values.

    Text before, between and after calls is content, without the white space next to a call. Text that begins like a
    call but is malformed, or calls an unknown function, is content verbatim. A call is returned once its arguments
    begin; if it turns out malformed later, it keeps its arguments so far, and the rest is content.
    """

    def __init__(
        self, syntax: ToolSyntax, functions: Mapping[str, Schema], start: int = 0, choice_index: int = 0
    ) -> None:
        """`start` is the index, in the choice's text, of the first character that will be fed."""
        self._syntax = syntax
        self._functions = functions
        self._choice_index = choice_index
        self._num_calls = 0
        self._is_list = isinstance(syntax.payload, ObjectCall | PythonicCall)  # whether brackets may enclose calls
        self._markers = (*syntax.begins, syntax.opens_call) if syntax.opens_call else syntax.begins
        self._beginning = re.compile("[" + re.escape(WHITE_SPACE + "".join(each[0] for each in self._markers)) + "]")
        self._marker_length = max(map(len, self._markers), default=1)
        self._closers = tuple("".join(text.split()) for text in (*_after(syntax), syntax.end) if text)
        self._state = _State.START if syntax.bare else _State.TEXT
        self._held = ""  # characters that are neither returned nor dropped
        self._held_start = start
        self._follows_call = False  # whether only white space followed the last call
        self._in_list = False
        self._in_frame = False  # whether a begin marker is open
        self._call = self._reader()
        self._is_emitted = False  # whether an event was emitted for `_call`
        self._events: list[Delta] = []

    @property
    def num_held(self) -> int:
        """The number of the last characters that are held back until it is known whether they are content."""
        return len(self._held)

    def feed(self, text: str, start: int | None = None) -> list[Delta]:
        """Take more text, and return the events that became known. `start` is its index in the choice's text."""
        if start is not None and not self._held:
            self._held_start = start
        self._read(text)
        return self._take_events()

    def _read(self, text: str) -> None:
        """Take a text, in runs of characters where possible."""
        position = 0
        while position < len(text):
            if self._state is _State.CALL:
                position = self._take_call(text, position)
                continue
            if self._state is _State.TEXT and not self._held:
                position = self._emit_certain(text, position)
            position = self._hold_white_space(text, position)
            if position < len(text):
                self._take(text[position])
                position += 1

    def close(self) -> list[Delta]:
        """End the text, and return the events of what was held back."""
        between_calls = self._state in (_State.AFTER_CALL, _State.ELEMENT) or self._held.strip(WHITE_SPACE) == ""
        if self._follows_call and between_calls:
            self._drop()
        self._emit(len(self._held))
        return self._take_events()

    def _reader(self) -> CallReader:
        """Return a reader of one call in the model's syntax."""
        match self._syntax.payload:
            case NamedCall() as payload:
                return NamedCallReader(payload, self._functions)
            case TaggedCall() as payload:
                return TaggedCallReader(payload, self._functions)
            case PythonicCall() | BracedCall() as payload:
                return KeywordCallReader(payload, self._functions)
            case ObjectCall(keyed=keyed):
                return CallObject(self._functions, keyed=keyed)
            case ChannelCall() | TemplatedCall():
                raise ValueError("answers with such calls have another parser")

    def _take_events(self) -> list[Delta]:
        events, self._events = self._events, []
        return events

    def _take(self, character: str) -> None:
        """Take one character."""
        match self._state:
            case _State.TEXT:
                self._take_text(character)
            case _State.CALL:
                self._take_call(character)
            case _State.AFTER_CALL:
                self._take_after_call(character)
            case _:
                self._take_opening(character)

    def _emit_certain(self, text: str, position: int) -> int:
        """Emit text up to where a marker may begin, or white space before one; return that position."""
        found = self._beginning.search(text, position)
        end = len(text) if found is None else found.start()
        self._held = text[position:end]
        self._emit(end - position)
        return end

    def _hold_white_space(self, text: str, position: int) -> int:
        """Hold a run of white space at once, so that time is linear in its length; return the position after it."""
        if self._state is _State.TEXT and not _is_blank(self._held[-self._marker_length :]):
            return position  # inside a marker, which may contain white space
        pattern = _ANY_BLANKS if self._state is _State.AFTER_CALL and not self._in_list else _BLANKS
        run = pattern.match(text, position)
        if run is None:
            return position
        self._held += run[0]
        return run.end()

    def _take_text(self, character: str) -> None:
        """Take a character of text; emit what is certainly no part of a marker."""
        self._held += character
        while marker := self._held.lstrip(WHITE_SPACE):
            if any(begin.startswith(marker) for begin in self._markers):
                if marker in self._syntax.begins:
                    self._state, self._in_frame = _State.FRAME, True
                elif marker in self._markers:
                    self._in_frame = self._begin_call(marker)
                return
            self._emit(len(self._held) - len(marker) + 1)

    def _take_opening(self, character: str) -> None:
        """Take a character where a call may open: at a bare answer's start, after the begin marker, or in a list."""
        if character in WHITE_SPACE:
            self._held += character
        elif character == "[" and self._is_list and not self._in_list:
            self._held += character
            self._state, self._in_list = _State.ELEMENT, True
        elif self._state is _State.START and any(begin.startswith(character) for begin in self._markers):
            self._state = _State.TEXT
            self._take_text(character)
        else:
            self._state, self._call, self._is_emitted = _State.CALL, self._reader(), False
            self._take_call(character)

    def _take_call(self, text: str, position: int = 0) -> int:
        """Feed the call's reader until the call or `text` ends; return the position of the next character."""
        start = position
        while position < len(text):
            verdict = self._call.feed(text[position])
            if verdict is Verdict.MALFORMED:
                self._held += text[start:position]
                self._fail(text[position])
                return position + 1
            position += 1
            if self._call.function is not None:
                self._add_call(self._call.function, self._call.take_arguments())
                self._drop()
                self._held_start += position - start
                start = position
            if verdict is Verdict.DONE:
                self._state = _State.AFTER_CALL
                break
        self._held += text[start:position]
        return position

    def _take_after_call(self, character: str) -> None:
        """Take a character after a call: a closing marker, a separator, or the beginning of text."""
        following = "".join((self._held + character).split())
        if self._in_list:
            self._take_after_element(character)
        elif not following:
            self._held += character
        elif any(closer.startswith(following) for closer in self._closers):
            self._held += character
            if following in self._closers:
                self._drop()
                if following == "".join(self._syntax.end.split()):
                    self._state, self._in_frame = _State.TEXT, False
        elif self._syntax.bare and following[0] in self._syntax.separators and len(following) == 1:
            self._held += character
        else:
            self._begin_call_or_text(character)

    def _take_after_element(self, character: str) -> None:
        """Take a character after a call in a list."""
        if character not in WHITE_SPACE + ",]":
            self._fail(character)
            return
        self._held += character
        if character == ",":
            self._state = _State.ELEMENT
        elif character == "]":
            self._in_list = False
            self._drop()

    def _begin_call_or_text(self, character: str) -> None:
        """Continue with another call, or with text, if the held text after a call is no closer."""
        if self._in_frame or self._syntax.bare:
            separators = WHITE_SPACE + (self._syntax.separators if self._syntax.bare else "")
            if self._begin_call((self._held + character).lstrip(separators)):
                self._held += character
                return
        held, self._held = self._held, ""
        self._state, self._in_frame = _State.TEXT, False
        self._read(held + character)

    def _begin_call(self, text: str) -> bool:
        """Continue inside a call that begins with `text`; return False if no call can begin with it."""
        call = self._reader()
        if not all(call.feed(character) is Verdict.MORE for character in text):
            return False
        self._state, self._call, self._is_emitted = _State.CALL, call, False
        return True

    def _fail(self, character: str) -> None:
        """Emit the held text as content, because `character` makes it malformed, and continue as text."""
        self._emit(len(self._held))
        self._state, self._in_list, self._in_frame = _State.TEXT, False, False
        self._take_text(character)

    def _add_call(self, function: str, arguments: str) -> None:
        """Emit the current call once, and the new part of its arguments."""
        if not self._is_emitted:
            self._is_emitted = self._follows_call = True
            self._num_calls += 1
            self._events.append(ToolCall(self._choice_index, self._num_calls - 1, "", function))
        if not arguments:
            return
        last = self._events[-1] if self._events else None
        if isinstance(last, ToolArguments):
            self._events[-1] = last._replace(text=last.text + arguments)
        else:
            self._events.append(ToolArguments(self._choice_index, self._num_calls - 1, arguments))

    def _emit(self, num_characters: int) -> None:
        """Emit held characters as text."""
        text = self._held[:num_characters]
        if not text:
            return
        last = self._events[-1] if self._events else None
        if isinstance(last, Text) and last.start + len(last.text) == self._held_start:
            self._events[-1] = last._replace(text=last.text + text)
        else:
            self._events.append(Text(self._choice_index, text, start=self._held_start))
        self._follows_call = False
        self._held = self._held[num_characters:]
        self._held_start += num_characters

    def _drop(self) -> None:
        """Drop all held characters."""
        self._held_start += len(self._held)
        self._held = ""


def _is_blank(text: str) -> bool:
    return not text.strip(WHITE_SPACE)


def _after(syntax: ToolSyntax) -> tuple[str, ...]:
    """Return the texts that may follow a call."""
    return syntax.payload.after if isinstance(syntax.payload, NamedCall) else ()
