"""A marker in a model's text, and the tokens that can contain parts of it."""

from __future__ import annotations

from collections import abc

from service.engine.tokens.tokenizer import Vocabulary


class Marker:
    """A marker's bytes in one vocabulary. Immutable; shared by all requests.

    A marker of letters only may be a word of the text. It counts only if a character other than white space follows.
    """

    def __init__(self, tokenizer: Vocabulary, marker: bytes) -> None:
        self.data = marker
        self._is_word = marker.isalpha()
        self._crossing = {} if self._is_word else _crossing_ids(tokenizer, marker)

    def crossing_ids(self, tail: bytes) -> abc.Iterator[int]:
        """Yield tokens that would complete the marker and continue beyond it, after a text that ends with `tail`.

        There are none for a word, which may be followed by any text.
        """
        for num_before, token_ids in self._crossing.items():
            if tail.endswith(self.data[:num_before]):
                yield from token_ids

    def text_after(self, tail: bytes, data: bytes) -> bytes | None:
        """Return the part of `data`, which follows `tail`, after the marker; None if the marker does not end in it.

        A word may also end before it.
        """
        num_before = len(self.data) - (not self._is_word)
        text = (tail[-num_before:] if num_before else b"") + data
        if (found := text.find(self.data)) < 0:
            return None
        rest = text[found + len(self.data) :]
        return None if self._is_word and not rest[:1].strip() else rest


def _crossing_ids(tokenizer: Vocabulary, marker: bytes) -> dict[int, list[int]]:
    """Return the tokens by the number of the marker's bytes that precede them."""
    crossing: dict[int, list[int]] = {}
    for token_id in range(tokenizer.vocab_size):
        data = tokenizer.token_bytes(token_id)
        for length in range(len(marker)):
            rest = marker[length:]
            found = data.find(rest) if length == 0 else (0 if data.startswith(rest) else -1)
            if found >= 0 and len(data) > found + len(rest):
                crossing.setdefault(length, []).append(token_id)
    return crossing
