"""Incremental detokenization, one object per choice.

It holds back bytes of an incomplete character, and text that may become a stop string. The sequence itself handles ends
by token or length.
"""

from __future__ import annotations

import codecs
from collections import abc
from itertools import accumulate

from service.engine.tokens.tokenizer import Vocabulary


class Detokenizer:
    """Decodes one choice's tokens to text that can be sent immediately.

    `append` never returns a part of a character, nor of a stop string unless the text includes it, regardless of how
    its characters are spread over tokens. The stop string that ends first wins; of two that end at the same character,
    the longer. So the result does not depend on how the text is split into tokens. A stop string that is complete
    within the first `num_open_tokens` tokens is ordinary text. Invalid UTF-8 becomes U+FFFD as soon as no further byte
    can complete it.
    """

    def __init__(
        self,
        tokenizer: Vocabulary,
        stop: abc.Sequence[str] = (),
        *,
        num_open_tokens: int = 0,
        skip_special_tokens: bool = True,
        includes_stop: bool = False,
    ) -> None:
        """`includes_stop` keeps the complete stop string at the end of the text."""
        self.stop_sequence: str | None = None
        self.num_characters = 0  # of all tokens, including those held back or cut off
        self._tokenizer = tokenizer
        self._stop = tuple(stop)
        self._num_open_tokens = num_open_tokens
        self._includes_stop = includes_stop
        self._skipped_ids = tokenizer.special_token_ids if skip_special_tokens else frozenset()
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._is_between = True  # between two characters: the decoder holds no bytes
        self._held = ""  # the longest suffix of the text that is a prefix of a stop string
        self._num_tokens = 0

    def append(self, token_id: int) -> str:
        """Append the next token, and return the text that can be sent now.

        Once `stop_sequence` is set, the text has ended, and no token may follow.
        """
        self._num_tokens += 1
        if token_id in self._skipped_ids:
            return ""
        text = self._decode(self._tokenizer.token_bytes(token_id))
        self.num_characters += len(text)
        if not self._stop:
            return text
        num_held = len(self._held)
        text = self._held + text
        if self._num_tokens > self._num_open_tokens and (found := self._find_stop(text, num_held)) is not None:
            self._held = ""
            start, end = found
            return text[: end if self._includes_stop else start]
        self._held = self._possible_stop(text)
        return text[: len(text) - len(self._held)]

    def extend(self, token_ids: abc.Sequence[int]) -> tuple[str, tuple[int, ...]]:
        """Append the next tokens of a choice without stop strings.

        Return their text, and the number of characters of the choice up to the end of each token.
        """
        byte_strings = [self._tokenizer.token_bytes(token_id) for token_id in token_ids]
        data = b"".join(byte_strings)
        if self._is_between and not self._stop and data.isascii() and self._skipped_ids.isdisjoint(token_ids):
            ends = tuple(accumulate(map(len, byte_strings), initial=self.num_characters))[1:]
            self._num_tokens += len(byte_strings)
            self.num_characters += len(data)
            return data.decode("ascii"), ends
        texts, all_ends = [], []
        for token_id in token_ids:
            texts.append(self.append(token_id))
            all_ends.append(self.num_characters)
        return "".join(texts), tuple(all_ends)

    def flush(self) -> str:
        """Return the rest of the text of a choice that does not end by a stop string."""
        text = self._held + self._decoder.decode(b"", final=True)
        self._held = ""
        return text

    def _decode(self, new: bytes) -> str:
        """Return the complete characters of the bytes so far; the rest waits for the next bytes."""
        if self._is_between and new.isascii():
            return new.decode("ascii")  # faster than the decoder
        text = self._decoder.decode(new)
        self._is_between = not self._decoder.getstate()[0]
        return text

    def _find_stop(self, text: str, num_held: int) -> tuple[int, int] | None:
        """Return start and end of the stop string that ends first in `text` after its first `num_held` characters."""
        first: tuple[int, int] | None = None  # (end, start)
        for stop in self._stop:
            start = text.find(stop, max(0, num_held - len(stop) + 1))
            if start >= 0 and (first is None or (start + len(stop), start) < first):
                first = (start + len(stop), start)
                self.stop_sequence = stop
        return (first[1], first[0]) if first else None

    def _possible_stop(self, text: str) -> str:
        """Return the longest suffix of `text` that is a proper prefix of a stop string."""
        longest = 0
        for stop in self._stop:
            for length in range(min(len(stop) - 1, len(text)), longest, -1):
                if stop[length - 1] == text[-1] and text.endswith(stop[:length]):
                    longest = length
                    break
        return text[len(text) - longest :]
