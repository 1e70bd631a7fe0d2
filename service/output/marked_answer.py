"""Remove the markers that a family puts around its answers."""

from __future__ import annotations

from service.generation.constraint import ReasoningMarkers
from service.generation.events import Text
from service.output.reasoning import num_marker_characters

_WHITE_SPACE = " \t\r\n"


class MarkedAnswerParser:
    """Takes what follows the reasoning; returns it without the markers and the white space between them and the text.

    An answer without its markers, such as a call, is told as it is.
    """

    def __init__(self, markers: ReasoningMarkers, choice_index: int = 0) -> None:
        """`markers` has both of an answer's."""
        self._open, self._close = markers.answer_open, markers.answer_close
        self._choice_index = choice_index
        self._is_inside = False
        self._was_opened = False
        self._held = ""
        self._held_start = 0

    @property
    def num_held(self) -> int:
        """How many of the last characters fed are not yet known to be content or not."""
        return len(self._held)

    def feed(self, content: Text) -> list[Text]:
        """Take more text; return what became known."""
        if not self._held:
            self._held_start = content.start
        self._held += content.text
        if not self._is_inside:
            self._begin()
        return self._tell() if self._is_inside else []

    def close(self) -> list[Text]:
        """The text has ended; return what was held back."""
        events = [Text(self._choice_index, self._held, start=self._held_start)] if self._held else []
        self._skip(len(self._held))
        return events

    def _begin(self) -> None:
        text = self._held.lstrip(_WHITE_SPACE)
        if not self._was_opened:
            if text.startswith(self._open):
                self._was_opened = True
                self._skip(len(self._held) - len(text) + len(self._open))
                text = self._held
            elif not self._open.startswith(text):
                self._is_inside = True
        if self._was_opened:
            self._skip(len(self._held) - len(self._held.lstrip("\r\n")))
            self._is_inside = bool(self._held)

    def _tell(self) -> list[Text]:
        events = []
        while (end := self._held.find(self._close)) >= 0:
            text = self._held[:end].rstrip(_WHITE_SPACE)
            if text:
                events.append(Text(self._choice_index, text, start=self._held_start))
            self._skip(end + len(self._close))
        sure = len(self._held) - num_marker_characters(self._held, self._close)
        sure = len(self._held[:sure].rstrip(_WHITE_SPACE))
        if sure:
            events.append(Text(self._choice_index, self._held[:sure], start=self._held_start))
            self._skip(sure)
        return events

    def _skip(self, num_characters: int) -> None:
        self._held = self._held[num_characters:]
        self._held_start += num_characters
