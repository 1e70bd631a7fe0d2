"""Split an answer's text into reasoning and content.

The parser holds back a possible marker and the white space around it, so its result does not depend on how the text is
split into chunks.
"""

from __future__ import annotations

import enum

from service.generation.formats.constraint import ReasoningMarkers, ReasoningStart
from service.generation.outputs.events import Reasoning, Text
from service.output.parsers.blank_run import BLANKS, BlankRun
from service.output.parsers.marker import num_marker_characters


class _State(enum.Enum):
    BEFORE = enum.auto()
    INSIDE = enum.auto()
    AFTER = enum.auto()  # between the closing marker and the content
    CONTENT = enum.auto()


class ReasoningParser:
    """Splits a choice's text into reasoning and content.

    White space between a marker and the reasoning, and line ends after the closing marker, are dropped. Only a marker
    at the very start opens reasoning.
    """

    def __init__(self, markers: ReasoningMarkers, start: ReasoningStart, choice_index: int = 0) -> None:
        self.has_reasoned = start is ReasoningStart.OPEN
        self._markers = markers
        self._choice_index = choice_index
        self._state = {
            ReasoningStart.NONE: _State.CONTENT,
            ReasoningStart.MAY_OPEN: _State.BEFORE,
            ReasoningStart.OPEN: _State.INSIDE,
        }[start]
        self._held = ""
        self._blanks = BlankRun()  # after `_held`
        self._held_start = 0
        self._content_start: int | None = 0 if start is ReasoningStart.NONE else None
        self._at_start = True  # no text of the reasoning was returned yet

    @property
    def content_start(self) -> int | None:
        """The index of the content's first character; None during the reasoning."""
        return self._content_start

    @property
    def num_held(self) -> int:
        """The number of the last characters that are held back until it is known whether they are content."""
        return len(self._held) + self._blanks.length

    def feed(self, text: str) -> list[Reasoning | Text]:
        """Take more text, and return the events that became known. Once the content has begun, all text is content."""
        if self._blanks.take(text):
            return []
        self._held += self._blanks.end() + text
        events: list[Reasoning | Text] = []
        if self._state is _State.BEFORE:
            self._open()
        if self._state is _State.INSIDE:
            self._reason(events)
        if self._state is _State.AFTER:
            self._skip(len(self._held) - len(self._held.lstrip("\r\n")))
            self._content_start = self._held_start
            if self._held:
                self._state = _State.CONTENT
        if self._state is _State.CONTENT and self._held:
            events.append(Text(self._choice_index, self._held, start=self._held_start))
            self._held_start += len(self._held)
            self._held = ""
        self._blanks.begin(self._held)
        return events

    def close(self) -> list[Reasoning | Text]:
        """End the text, and return the events of what was held back."""
        held, start = self._held + self._blanks.end(), self._held_start
        self._skip(len(held))
        if self._state is _State.INSIDE and held:
            return [Reasoning(self._choice_index, held)]
        return [Text(self._choice_index, held, start=start)] if held else []

    def _open(self) -> None:
        """Skip the opening marker, or decide that there is no reasoning."""
        marker = self._markers.open
        text = self._held.lstrip(BLANKS)
        if text.startswith(marker):
            self._skip(len(self._held) - len(text) + len(marker))
            self._state = _State.INSIDE
            self.has_reasoned = True
        elif not marker.startswith(text):
            self._state = _State.CONTENT
            self._content_start = self._held_start

    def _reason(self, events: list[Reasoning | Text]) -> None:
        """Emit the reasoning that certainly precedes the closing marker."""
        marker = self._markers.close
        if self._at_start:
            self._skip(len(self._held) - len(self._held.lstrip(BLANKS)))
        end = self._held.find(marker)
        if end < 0:
            num_known = len(self._held) - num_marker_characters(self._held, marker)
            num_known = len(self._held[:num_known].rstrip(BLANKS))
        else:
            num_known = len(self._held[:end].rstrip(BLANKS))
        if num_known:
            events.append(Reasoning(self._choice_index, self._held[:num_known]))
            self._at_start = False
        if end < 0:
            self._skip(num_known)
        else:
            self._skip(end + len(marker))
            self._state = _State.AFTER

    def _skip(self, num_characters: int) -> None:
        """Drop held characters."""
        self._held = self._held[num_characters:]
        self._held_start += num_characters
