"""The tokens and text that a choice has generated and not reported yet.

Tokens are decoded when they are reported, many at a time, unless text may end the choice: then each token is decoded
as it is sampled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from service.engine.core.sequences.detokenizer import Detokenizer
from service.generation.output import TokenLogprob


class OutputChunk(NamedTuple):
    """Some tokens of a choice as they are reported: the per-token fields of its output, and their text."""

    token_ids: tuple[int, ...]
    times: tuple[float, ...]
    text: str
    text_ends: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...]
    is_whole: bool  # from one cut to the next
    is_last: bool


class PendingOutput:
    """Tokens in the order in which they were sampled. Those up to a cut are reported as a chunk of their own."""

    def __init__(self, detokenizer: Detokenizer, cuts: Iterable[int] = (), *, reads_at_once: bool = False) -> None:
        """`cuts` are numbers of generated tokens, in ascending order."""
        self._detokenizer = detokenizer
        self._cuts = deque(cuts)
        self._reads_at_once = reads_at_once
        self._num_emitted = 0
        self._token_ids: list[int] = []
        self._times: list[float] = []
        self._logprobs: list[TokenLogprob] = []
        self._hides_last = False
        self._texts: list[str] = []  # where each token is read as it comes,
        self._ends: list[int] = []  # and the characters up to its end

    def add(self, token_id: int, now: float, logprob: TokenLogprob | None, *, is_text: bool) -> None:
        """Take a token. The one that ends the choice may be none of its text; after it there is none."""
        self._token_ids.append(token_id)
        self._times.append(now)
        if logprob is not None:
            self._logprobs.append(logprob)
        if self._reads_at_once:
            self._texts.append(self._detokenizer.append(token_id) if is_text else "")
            self._ends.append(self._detokenizer.num_characters)
        elif not is_text:
            self._hides_last = True

    def pieces(self, *, is_finished: bool) -> list[OutputChunk]:
        """Return what can be reported now: one chunk, or one for each span between cuts up to the last cut.

        The last one of a choice that is finished has the text that was held back, unless that has ended the choice.
        """
        found = []
        num_generated = self._num_emitted + len(self._token_ids)
        while self._cuts and self._cuts[0] + is_finished <= num_generated:
            found.append(self._take(self._cuts.popleft() - self._num_emitted, is_whole=True))
        if is_finished:
            last = self._take(len(self._token_ids), is_whole=bool(self._cuts), is_last=True)
            held = self._detokenizer.flush() if self._detokenizer.stop_sequence is None else ""
            found.append(last._replace(text=last.text + held))
            self._cuts.clear()
        elif self._token_ids and not self._cuts:
            found.append(self._take(len(self._token_ids)))
        return found

    def _take(self, num_tokens: int, *, is_whole: bool = False, is_last: bool = False) -> OutputChunk:
        token_ids = tuple(self._token_ids[:num_tokens])
        text, ends = self._read(token_ids)
        times, logprobs = tuple(self._times[:num_tokens]), tuple(self._logprobs[:num_tokens])
        self._num_emitted += num_tokens
        for each in (self._token_ids, self._times, self._texts, self._ends, self._logprobs):
            del each[:num_tokens]
        return OutputChunk(token_ids, times, text, ends, logprobs, is_whole, is_last)

    def _read(self, token_ids: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        """The text of the first tokens, and where the characters of each end."""
        if self._reads_at_once:
            return "".join(self._texts[: len(token_ids)]), tuple(self._ends[: len(token_ids)])
        if self._hides_last and len(token_ids) == len(self._token_ids):
            text, ends = self._detokenizer.extend(token_ids[:-1])
            return text, (*ends, self._detokenizer.num_characters)
        return self._detokenizer.extend(token_ids)
