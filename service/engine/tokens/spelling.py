"""The bytes that the tokens of a vocabulary stand for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

import numpy as np


def _byte_level_alphabet() -> dict[str, int]:
    """Return the byte that each character stands for in byte-level BPE (GPT-2's table).

    Printable Latin-1 characters represent themselves, and other bytes are mapped to characters from U+0100 on.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (byte for byte in range(256) if byte not in printable)
    alphabet = {chr(byte): byte for byte in printable}
    alphabet.update({chr(0x100 + index): byte for index, byte in enumerate(others)})
    return alphabet


_ALPHABET: Final = _byte_level_alphabet()
_UNKNOWN: Final = -1
# The byte of each character of the alphabet by its number; the last one is that of all characters behind them.
_BYTES: Final = np.full(max(map(ord, _ALPHABET)) + 2, _UNKNOWN, np.int16)
_BYTES[[ord(character) for character in _ALPHABET]] = list(_ALPHABET.values())


class Spelling:
    """A vocabulary's spelling of bytes, as read from tokenizer.json's decoder."""

    def __init__(self, decoder: Any) -> None:
        steps = list(_steps(decoder))
        kinds = {step["type"] for step in steps}
        self._is_byte_level = "ByteLevel" in kinds
        self._has_byte_tokens = "ByteFallback" in kinds
        # A sentencepiece vocabulary spells the space as "▁", with either of two decoders.
        self._space = next((step["replacement"] for step in steps if step["type"] == "Metaspace"), None)
        for step in steps:
            if step["type"] == "Replace" and step.get("content") == " ":
                self._space = step["pattern"].get("String")

    def vocabulary_bytes(self, vocabulary: Mapping[str, int], added: Mapping[int, str]) -> list[bytes]:
        """Return the bytes of each id, empty for an id without a token. `added` tokens stand for themselves."""
        texts = [""] * (max(vocabulary.values(), default=-1) + 1)
        for token, token_id in vocabulary.items():
            texts[token_id] = token
        found = self._byte_level_bytes(texts) if self._is_byte_level else list(map(self._to_bytes, texts))
        for token_id, text in added.items():
            found[token_id] = text.encode()
        return found

    def _byte_level_bytes(self, tokens: Sequence[str]) -> list[bytes]:
        """Return the bytes of the tokens, all at once. A token outside the alphabet stands for itself."""
        characters = np.frombuffer("".join(tokens).encode("utf-32-le"), "<u4")
        values = _BYTES[np.minimum(characters, len(_BYTES) - 1)]
        flat, ends = values.astype(np.uint8).tobytes(), list(accumulate(map(len, tokens)))
        found = [flat[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        for index in set(np.searchsorted(ends, np.flatnonzero(values == _UNKNOWN), side="right").tolist()):
            found[index] = tokens[index].encode()
        return found

    def _to_bytes(self, token: str) -> bytes:
        if self._has_byte_tokens and len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
            return bytes.fromhex(token[3:5])
        return (token.replace(self._space, " ") if self._space else token).encode()


def _steps(decoder: Any) -> Iterator[dict[str, Any]]:
    """Yield the steps of a tokenizer's decoder in order; nested sequences are flattened."""
    if decoder is None:
        return
    if decoder["type"] == "Sequence":
        for step in decoder["decoders"]:
            yield from _steps(step)
    else:
        yield decoder
