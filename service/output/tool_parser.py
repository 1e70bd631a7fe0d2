"""Finds tool calls in the text of an answer.

`call_object` reads the inside of a call. The parser goes by single characters, so its result can't depend on how the
text is cut into chunks.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection

from service.output.call_object import CallObject, ObjectExtent, Verdict
from service.output.pieces import ArgumentsPiece, CallPiece, Piece, TextPiece
from service.output.tool_syntax import ToolSyntax

_WHITE_SPACE = " \t\r\n"
_CALL_HEAD = re.compile(r"\s*([A-Za-z0-9_-]{1,64})(?:\[CALL_ID\][A-Za-z0-9]{1,64})?(?:\[ARGS\])?\s*")
_MAX_CALL_HEAD = 192  # characters between the marker and the arguments of a named call


class _State(enum.Enum):
    START = enum.auto()  # of a bare answer, before its first character that is no white space
    TEXT = enum.auto()
    OPENED = enum.auto()  # after the begin marker
    ELEMENT = enum.auto()  # where a list's next object is due
    OBJECT = enum.auto()
    HEAD = enum.auto()  # the name of a named call
    ARGUMENTS = enum.auto()  # of a named call
    AFTER_CALL = enum.auto()


class ToolCallParser:
    """Splits text into content and calls of the functions `names`.

    Text before, between and after calls is content, without the white space that stands between it and a call. What
    begins like a call and turns out malformed, or calls an unknown function, is content, to the character. A call is
    told once its arguments begin; one that breaks off later keeps the arguments that it had, and what follows is
    content.
    """

    def __init__(self, syntax: ToolSyntax, names: Collection[str], start: int = 0) -> None:
        """`start` is the index, in the choice's text, of the first character that will be fed."""
        self._syntax = syntax
        self._names = frozenset(names)
        self._state = _State.START if syntax.bare else _State.TEXT
        self._held = ""  # characters that are neither told nor dropped
        self._held_start = start
        self._follows_call = False  # whether nothing but white space came since the last call
        self._head = ""
        self._in_list = False
        self._object = CallObject(self._names)
        self._extent = ObjectExtent()
        self._pieces: list[Piece] = []

    @property
    def num_held(self) -> int:
        """How many of the last characters fed are not yet known to be content or not."""
        return len(self._held)

    def feed(self, text: str) -> list[Piece]:
        """Take more text; return what became known."""
        for character in text:
            self._take(character)
        return self._take_pieces()

    def close(self) -> list[Piece]:
        """The text has ended; return what was held back."""
        between_calls = self._state in (_State.AFTER_CALL, _State.ELEMENT) or self._held.strip(_WHITE_SPACE) == ""
        if self._follows_call and between_calls:
            self._drop()
        self._emit(len(self._held))
        return self._take_pieces()

    def _take_pieces(self) -> list[Piece]:
        pieces, self._pieces = self._pieces, []
        return pieces

    def _take(self, character: str) -> None:
        match self._state:
            case _State.TEXT:
                self._take_text(character)
            case _State.OBJECT:
                self._take_object(character)
            case _State.ARGUMENTS:
                self._take_arguments(character)
            case _State.HEAD:
                self._take_head(character)
            case _State.AFTER_CALL:
                self._take_after_call(character)
            case _:
                self._take_opening(character)

    def _take_text(self, character: str) -> None:
        self._held += character
        begin = self._syntax.begin
        while marker := self._held.lstrip(_WHITE_SPACE):
            if begin.startswith(marker):
                if marker == begin:
                    self._state = _State.OPENED
                return
            self._emit(len(self._held) - len(marker) + 1)

    def _take_opening(self, character: str) -> None:
        """Where a call may open: at a bare answer's start, after the begin marker, or in a list."""
        if character in _WHITE_SPACE:
            self._held += character
        elif character == "{":
            self._state, self._object = _State.OBJECT, CallObject(self._names)
            self._take_object(character)
        elif character == "[" and self._state is not _State.ELEMENT:
            self._held += character
            self._state, self._in_list = _State.ELEMENT, True
        elif self._state is _State.OPENED and self._syntax.named:
            self._state, self._head = _State.HEAD, ""
            self._take_head(character)
        elif self._state is _State.START:
            self._state = _State.TEXT
            self._take_text(character)
        else:
            self._fail(character)

    def _take_object(self, character: str) -> None:
        verdict = self._object.feed(character)
        if verdict is Verdict.MALFORMED:
            self._fail(character)
            return
        self._held += character
        for piece in self._object.take_pieces():
            self._tell(piece)
        if self._object.is_committed:
            self._drop()
        if verdict is Verdict.DONE:
            self._state = _State.AFTER_CALL

    def _take_head(self, character: str) -> None:
        if character != "{":
            if character in "\r\n" or len(self._head) >= _MAX_CALL_HEAD:
                self._fail(character)
            else:
                self._head += character
                self._held += character
            return
        head = _CALL_HEAD.fullmatch(self._head)
        if head is None or head[1] not in self._names:
            self._fail(character)
            return
        self._tell(CallPiece(head[1]))
        self._state, self._extent = _State.ARGUMENTS, ObjectExtent()
        self._take_arguments(character)

    def _take_arguments(self, character: str) -> None:
        self._held += character
        self._drop()
        self._tell(ArgumentsPiece(character))
        if self._extent.feed(character):
            self._state = _State.AFTER_CALL

    def _take_after_call(self, character: str) -> None:
        syntax = self._syntax
        following = (self._held + character).lstrip(_WHITE_SPACE)
        if self._in_list:
            if character not in _WHITE_SPACE + ",]":
                self._fail(character)
                return
            self._held += character
            if character == ",":
                self._state = _State.ELEMENT
            elif character == "]":
                self._in_list = False
                self._drop()
        elif following == "" or (syntax.end != "" and syntax.end.startswith(following)):
            self._held += character
            if following and following == syntax.end:
                self._drop()
                self._state = _State.TEXT
        elif syntax.bare and following[0] in syntax.separators and following[1:].strip(_WHITE_SPACE) == "":
            self._held += character
        elif syntax.bare and character == "{" and following.strip(_WHITE_SPACE + syntax.separators) == "{":
            self._state, self._object = _State.OBJECT, CallObject(self._names)
            self._take_object(character)
        else:
            self._replay(character)

    def _replay(self, character: str) -> None:
        """What is held after a call is no part of the syntax: read it again as text."""
        held, self._held = self._held, ""
        self._state = _State.TEXT
        for earlier in held + character:
            self._take(earlier)

    def _fail(self, character: str) -> None:
        """`character` makes malformed what is held: tell it as content, and go on with `character` as text."""
        self._emit(len(self._held))
        self._state, self._in_list = _State.TEXT, False
        self._take_text(character)

    def _tell(self, piece: CallPiece | ArgumentsPiece) -> None:
        last = self._pieces[-1] if self._pieces else None
        if isinstance(piece, ArgumentsPiece) and isinstance(last, ArgumentsPiece):
            self._pieces[-1] = ArgumentsPiece(last.text + piece.text)
            return
        self._follows_call = True
        self._pieces.append(piece)

    def _emit(self, num_characters: int) -> None:
        text = self._held[:num_characters]
        if not text:
            return
        last = self._pieces[-1] if self._pieces else None
        if isinstance(last, TextPiece) and last.start + len(last.text) == self._held_start:
            self._pieces[-1] = TextPiece(last.text + text, last.start)
        else:
            self._pieces.append(TextPiece(text, self._held_start))
        self._follows_call = False
        self._held = self._held[num_characters:]
        self._held_start += num_characters

    def _drop(self) -> None:
        self._held_start += len(self._held)
        self._held = ""
