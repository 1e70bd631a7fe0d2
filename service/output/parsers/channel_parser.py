"""Split an answer in harmony's channels into reasoning, calls and content.

A message is a header, `<|message|>`, its text, and `<|end|>`, `<|call|>` or `<|return|>`; the next begins with
`<|start|>` and its author. The header has the channel and, for a call, the recipient. The parser holds back a possible
marker, so its result does not depend on how the text is split into chunks.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection

from service.generation.formats.constraint import ReasoningStart
from service.generation.outputs.events import Delta, Reasoning, Text, ToolArguments, ToolCall
from service.output.calls.call_reader import WHITE_SPACE
from service.output.families.tool_syntax import CALL, CHANNEL, END, MESSAGE, RETURN, START
from service.output.parsers.marker import num_marker_characters

_MAX_HEADER = 512  # characters
_HEADS = (CHANNEL, MESSAGE, START, "to=")  # a header begins with one of these
_ENDS = (END, CALL, RETURN, START)
_RECIPIENT = re.compile(r"\bto=(?:functions\.)?([^\s<]+)")
_CHANNEL = re.compile(re.escape(CHANNEL) + r"\s*([a-z]+)")


class _State(enum.Enum):
    HEADER = enum.auto()
    REASONING = enum.auto()
    ARGUMENTS = enum.auto()
    CONTENT = enum.auto()
    PLAIN = enum.auto()  # content up to the end, outside of messages


class ChannelParser:
    """Splits a choice's text into reasoning, calls of the functions `names`, and content.

    A message without a known channel is content. A message to an unknown function, and text where a header is missing,
    are content verbatim.
    """

    def __init__(self, names: Collection[str], start: ReasoningStart, choice_index: int = 0) -> None:
        self.has_reasoned = start is ReasoningStart.OPEN
        self.content_start: int | None = 0 if start is ReasoningStart.NONE else None
        self._names = names
        self._choice_index = choice_index
        self._num_calls = 0
        self._state = {
            ReasoningStart.NONE: _State.CONTENT,
            ReasoningStart.MAY_OPEN: _State.HEADER,
            ReasoningStart.OPEN: _State.REASONING,
        }[start]
        self._held = ""
        self._held_start = 0
        self._has_emitted = self.has_reasoned  # whether a message of reasoning was returned
        self._has_arguments = False
        self._events: list[Delta] = []

    @property
    def num_held(self) -> int:
        """The number of the last characters that are held back until it is known whether they are content."""
        return len(self._held)

    def feed(self, text: str) -> list[Delta]:
        """Take more text, and return the events that became known."""
        self._held += text
        while self._step():
            pass
        return self._take_events()

    def close(self) -> list[Delta]:
        """End the text, and return the events of what was held back."""
        match self._state:
            case _State.HEADER:
                if not self._held.lstrip(WHITE_SPACE).startswith("<|"):  # not a truncated header
                    self._emit_text(len(self._held))
            case _State.ARGUMENTS:
                self._end_call(len(self._held))
            case _:
                self._emit(len(self._held))
        self._skip(len(self._held))
        return self._take_events()

    def _take_events(self) -> list[Delta]:
        events, self._events = self._events, []
        return events

    def _step(self) -> bool:
        """Read the known part of the held text; return True to continue."""
        if self._state is _State.PLAIN:
            self._emit_text(len(self._held))
            return False
        return self._read_header() if self._state is _State.HEADER else self._read_message()

    def _read_header(self) -> bool:
        """Read a message's header. Return False if it is incomplete."""
        text = self._held.lstrip(WHITE_SPACE)
        if not any(text.startswith(head) or head.startswith(text) for head in _HEADS):
            self._state = _State.PLAIN
            self._begin_content()
            return True
        end = self._held.find(MESSAGE, 0, _MAX_HEADER)
        if end < 0:
            if len(self._held) < _MAX_HEADER:
                return False
            self._state = _State.PLAIN
            self._begin_content()
            return True
        self._begin_message(self._held[:end], end + len(MESSAGE))
        return True

    def _begin_message(self, header: str, length: int) -> None:
        """Begin the message of a complete header: reasoning, a call or content."""
        recipient, channel = _RECIPIENT.search(header), _CHANNEL.search(header)
        if recipient is None and channel is not None and channel[1] == "analysis":
            self._skip(length)
            self._state, self.has_reasoned = _State.REASONING, True
            if self._has_emitted:
                self._events.append(Reasoning(self._choice_index, "\n\n"))
            self._has_emitted = True
            return
        self._begin_content()
        if recipient is None:
            self._skip(length)
            self._state = _State.CONTENT
        elif recipient[1] in self._names:
            self._skip(length)
            self._state, self._has_arguments = _State.ARGUMENTS, False
            self._num_calls += 1
            self._events.append(ToolCall(self._choice_index, self._num_calls - 1, "", recipient[1]))
        else:
            self._emit_text(length)
            self._state = _State.CONTENT

    def _read_message(self) -> bool:
        """Emit the known part of a message. Return True if the message has ended."""
        found = [(position, marker) for marker in _ENDS if (position := self._held.find(marker)) >= 0]
        if not found:
            num_known = len(self._held) - max(num_marker_characters(self._held, marker) for marker in _ENDS)
            self._emit(num_known)
            return False
        position, marker = min(found)
        if self._state is _State.ARGUMENTS:
            self._end_call(position)
        else:
            self._emit(position)
        if marker != START:
            self._skip(len(marker))
        self._state = _State.HEADER
        return bool(self._held)

    def _begin_content(self) -> None:
        """Record where the content starts, unless it has started before."""
        if self.content_start is None:
            self.content_start = self._held_start

    def _emit(self, length: int) -> None:
        """Emit the next characters of the message, as the event for its channel."""
        match self._state:
            case _State.REASONING:
                if length:
                    self._events.append(Reasoning(self._choice_index, self._held[:length]))
                self._skip(length)
            case _State.ARGUMENTS:
                text = self._held[:length] if self._has_arguments else self._held[:length].lstrip(WHITE_SPACE)
                if text:
                    self._has_arguments = True
                    self._events.append(ToolArguments(self._choice_index, self._num_calls - 1, text))
                self._skip(length)
            case _:
                self._emit_text(length)

    def _end_call(self, length: int) -> None:
        """Emit the end of a call's arguments; a call without any has an empty object."""
        self._emit(length)
        if not self._has_arguments:
            self._events.append(ToolArguments(self._choice_index, self._num_calls - 1, "{}"))

    def _emit_text(self, length: int) -> None:
        """Emit held characters as content."""
        if length:
            self._begin_content()
            self._events.append(Text(self._choice_index, self._held[:length], start=self._held_start))
        self._skip(length)

    def _skip(self, length: int) -> None:
        """Drop held characters."""
        self._held = self._held[length:]
        self._held_start += length
