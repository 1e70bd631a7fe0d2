"""Split an answer written as messages in channels into reasoning, calls and content.

A message is a header, `<|message|>`, its text, and `<|end|>`, `<|call|>` or `<|return|>`; the next begins with
`<|start|>` and its author. The header has the channel and, for a call, whom it is to. The parser holds back what may
yet become a marker, so its result can't depend on how the text is cut.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection

from service.generation.constraint import ReasoningStart
from service.output.call_reader import WHITE_SPACE
from service.output.pieces import ArgumentsPiece, CallPiece, Piece, ReasoningPiece, TextPiece
from service.output.tool_syntax import CALL, CHANNEL, END, MESSAGE, RETURN, START

_MAX_HEADER = 512  # characters
_HEADS = (CHANNEL, MESSAGE, START, "to=")  # what a header begins with
_ENDS = (END, CALL, RETURN, START)
_RECIPIENT = re.compile(r"\bto=(?:functions\.)?([^\s<]+)")
_CHANNEL = re.compile(re.escape(CHANNEL) + r"\s*([a-z]+)")


class _State(enum.Enum):
    HEADER = enum.auto()
    REASONING = enum.auto()
    ARGUMENTS = enum.auto()
    CONTENT = enum.auto()
    PLAIN = enum.auto()  # content to the end: no message


class ChannelParser:
    """Takes a choice's text; returns reasoning, calls of `names`, and content.

    A message without a known channel is content; one to an unknown function, and what has no header where one is due,
    are content to the character.
    """

    def __init__(self, names: Collection[str], start: ReasoningStart) -> None:
        self.has_reasoned = start is ReasoningStart.OPEN
        self.content_start: int | None = 0 if start is ReasoningStart.NONE else None
        self._names = names
        self._state = {
            ReasoningStart.NONE: _State.CONTENT,
            ReasoningStart.MAY_OPEN: _State.HEADER,
            ReasoningStart.OPEN: _State.REASONING,
        }[start]
        self._held = ""
        self._held_start = 0
        self._has_told = self.has_reasoned  # a message of reasoning before
        self._has_arguments = False
        self._pieces: list[Piece] = []

    @property
    def num_held(self) -> int:
        """How many of the last characters fed are not yet known to be content or not."""
        return len(self._held)

    def feed(self, text: str) -> list[Piece]:
        """Take more text; return what became known."""
        self._held += text
        while self._step():
            pass
        return self._take_pieces()

    def close(self) -> list[Piece]:
        """The text has ended; return what was held back."""
        match self._state:
            case _State.HEADER:
                if not self._held.lstrip(WHITE_SPACE).startswith("<|"):  # no header that was broken off
                    self._tell_text(len(self._held))
            case _State.ARGUMENTS:
                self._end_call(len(self._held))
            case _:
                self._tell(len(self._held))
        self._skip(len(self._held))
        return self._take_pieces()

    def _take_pieces(self) -> list[Piece]:
        pieces, self._pieces = self._pieces, []
        return pieces

    def _step(self) -> bool:
        """Read on as far as what is held is sure; whether more may be."""
        if self._state is _State.PLAIN:
            self._tell_text(len(self._held))
            return False
        return self._read_header() if self._state is _State.HEADER else self._read_message()

    def _read_header(self) -> bool:
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
        recipient, channel = _RECIPIENT.search(header), _CHANNEL.search(header)
        if recipient is None and channel is not None and channel[1] == "analysis":
            self._skip(length)
            self._state, self.has_reasoned = _State.REASONING, True
            if self._has_told:
                self._pieces.append(ReasoningPiece("\n\n"))
            self._has_told = True
            return
        self._begin_content()
        if recipient is None:
            self._skip(length)
            self._state = _State.CONTENT
        elif recipient[1] in self._names:
            self._skip(length)
            self._state, self._has_arguments = _State.ARGUMENTS, False
            self._pieces.append(CallPiece(recipient[1]))
        else:
            self._tell_text(length)
            self._state = _State.CONTENT

    def _read_message(self) -> bool:
        found = [(place, marker) for marker in _ENDS if (place := self._held.find(marker)) >= 0]
        if not found:
            num_sure = len(self._held) - max(_num_begun(self._held, marker) for marker in _ENDS)
            self._tell(num_sure)
            return False
        place, marker = min(found)
        if self._state is _State.ARGUMENTS:
            self._end_call(place)
        else:
            self._tell(place)
        if marker != START:
            self._skip(len(marker))
        self._state = _State.HEADER
        return bool(self._held)

    def _begin_content(self) -> None:
        if self.content_start is None:
            self.content_start = self._held_start

    def _tell(self, length: int) -> None:
        """Tell what the message's state makes of its next characters."""
        match self._state:
            case _State.REASONING:
                if length:
                    self._pieces.append(ReasoningPiece(self._held[:length]))
                self._skip(length)
            case _State.ARGUMENTS:
                text = self._held[:length] if self._has_arguments else self._held[:length].lstrip(WHITE_SPACE)
                if text:
                    self._has_arguments = True
                    self._pieces.append(ArgumentsPiece(text))
                self._skip(length)
            case _:
                self._tell_text(length)

    def _end_call(self, length: int) -> None:
        self._tell(length)
        if not self._has_arguments:
            self._pieces.append(ArgumentsPiece("{}"))

    def _tell_text(self, length: int) -> None:
        if length:
            self._begin_content()
            self._pieces.append(TextPiece(self._held[:length], self._held_start))
        self._skip(length)

    def _skip(self, length: int) -> None:
        self._held = self._held[length:]
        self._held_start += length


def _num_begun(text: str, marker: str) -> int:
    """How long the longest end of `text` is that begins, but isn't, `marker`."""
    return next((n for n in range(min(len(marker) - 1, len(text)), 0, -1) if text.endswith(marker[:n])), 0)
