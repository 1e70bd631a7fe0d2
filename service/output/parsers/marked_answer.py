"""Remove the markers that a model family puts around its answers."""

from __future__ import annotations

from service.generation.formats.constraint import ReasoningMarkers
from service.generation.outputs.events import Text
from service.output.parsers.blank_run import BLANKS, BlankRun
from service.output.parsers.marker import num_marker_characters


class MarkedAnswerParser:
    """Removes the markers, and the white space between them and the text, from what follows the reasoning.

    An answer without markers, such as a call, is returned unchanged.
    """

    def __init__(self, markers: ReasoningMarkers, choice_index: int = 0) -> None:
        """`markers` must have both markers of an answer."""
        self._open, self._close = markers.answer_open, markers.answer_close
        self._choice_index = choice_index
        self._is_inside = False
        self._was_opened = False
        self._held = ""
        self._blanks = BlankRun()  # after `_held`
        self._held_start = 0

    @property
    def num_held(self) -> int:
        """The number of the last characters that are held back until it is known whether they are content."""
        return len(self._held) + self._blanks.length

    def feed(self, content: Text) -> list[Text]:
        """Take more text, and return the events that became known."""
        if self._blanks.take(content.text):
            return []
        if not self._held:
            self._held_start = content.start
        self._held += self._blanks.end() + content.text
        if not self._is_inside:
            self._begin()
        events = self._take_known() if self._is_inside else []
        self._blanks.begin(self._held)
        return events

    def close(self) -> list[Text]:
        """End the text, and return the events of what was held back."""
        self._held += self._blanks.end()
        events = [Text(self._choice_index, self._held, start=self._held_start)] if self._held else []
        self._skip(len(self._held))
        return events

    def _begin(self) -> None:
        """Skip the opening marker, or decide that there is none."""
        text = self._held.lstrip(BLANKS)
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

    def _take_known(self) -> list[Text]:
        """Return the text that is certainly before or after the closing marker."""
        events = []
        while (end := self._held.find(self._close)) >= 0:
            text = self._held[:end].rstrip(BLANKS)
            if text:
                events.append(Text(self._choice_index, text, start=self._held_start))
            self._skip(end + len(self._close))
        num_known = len(self._held) - num_marker_characters(self._held, self._close)
        num_known = len(self._held[:num_known].rstrip(BLANKS))
        if num_known:
            events.append(Text(self._choice_index, self._held[:num_known], start=self._held_start))
            self._skip(num_known)
        return events

    def _skip(self, num_characters: int) -> None:
        """Drop held characters."""
        self._held = self._held[num_characters:]
        self._held_start += num_characters
