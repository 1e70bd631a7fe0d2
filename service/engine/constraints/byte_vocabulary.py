"""A vocabulary of single bytes, to explore a grammar independently of a model's tokens."""

from __future__ import annotations

from collections import abc
from functools import lru_cache
from typing import Any

import llguidance
import numpy as np

from service.engine.tokens.tokenizer import Vocabulary

_NUM_BYTES = 256
_NUM_MASKS = 1024  # whose ids are kept
_CLOSING = b'}]"0:,-1tfn'  # in JSON


class ByteVocabulary:
    """A vocabulary with a model's control tokens at their ids, and one byte at each of 256 other ids.

    A path is a list of its ids. It represents a text independently of the text's tokenization.
    """

    def __init__(
        self,
        tokenizer: Vocabulary,
        full_tokenizer: Any,
        control_token_ids: abc.Collection[int],
        eos_token_ids: abc.Collection[int],
    ) -> None:
        """`full_tokenizer` is llguidance's tokenizer of the model's tokens. Raise ValueError for a small vocabulary."""
        excluded = {*control_token_ids, *eos_token_ids}
        free_ids = (token_id for token_id in range(tokenizer.vocab_size) if token_id not in excluded)
        self._id_of_byte = [token_id for token_id, _ in zip(free_ids, range(_NUM_BYTES), strict=False)]
        if len(self._id_of_byte) < _NUM_BYTES:
            raise ValueError("the vocabulary is too small")
        self._byte_of_id = {token_id: byte for byte, token_id in enumerate(self._id_of_byte)}
        self._tokenizer = tokenizer
        self._full_tokenizer = full_tokenizer
        self._excluded = frozenset(excluded)
        self._num_words = (full_tokenizer.vocab_size + 31) // 32
        self.eos_token_ids = frozenset(eos_token_ids)
        self.eos_token_id = min(eos_token_ids)
        # The attributes that llguidance requires of a vocabulary.
        self.bos_token_id = None
        self.special_token_ids = sorted(control_token_ids)
        self.tokens = [
            tokenizer.token_bytes(token_id) if token_id in excluded else b""
            for token_id in range(full_tokenizer.vocab_size)
        ]
        for byte, token_id in enumerate(self._id_of_byte):
            self.tokens[token_id] = bytes([byte])
        self.tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(self), eos_token=sorted(eos_token_ids))
        token_bytes = {tokenizer.token_bytes(token_id) for token_id in range(tokenizer.vocab_size)}
        # True if every byte has a token of its own, so that the model can write any text.
        self.has_all_bytes = all(bytes([byte]) in token_bytes for byte in range(_NUM_BYTES))
        closing = sorted(range(_NUM_BYTES), key=lambda byte: _CLOSING.find(byte) % 99)
        self.digit_ids = frozenset(self._id_of_byte[byte] for byte in b"0123456789")
        self.quote_id = self._id_of_byte[ord('"')]
        preferred = [*(self._id_of_byte[byte] for byte in closing), *sorted(excluded)]
        self._preferred = np.array([each for each in preferred if each < full_tokenizer.vocab_size], np.int64)
        # A mask differs only in the words of these ids, which are few.
        self._words = np.unique(self._preferred // 32)
        self._bits = np.searchsorted(self._words, self._preferred // 32) * 32 + self._preferred % 32
        self._allowed_by = lru_cache(_NUM_MASKS)(self._allowed)

    def mask_of(self, matcher: Any) -> bytes:
        """Return the mask of the ids that a matcher allows next, in those words that can differ."""
        mask = np.zeros(self._num_words, np.int32)
        matcher.unsafe_compute_mask_ptr(mask.ctypes.data, mask.nbytes)
        return mask[self._words].tobytes()

    def allowed(self, mask: bytes) -> tuple[int, ...]:
        """Return the ids that a mask of `mask_of` allows; those that tend to close open JSON come first."""
        return self._allowed_by(mask)

    def _allowed(self, mask: bytes) -> tuple[int, ...]:
        bits = np.unpackbits(np.frombuffer(mask, np.uint8), bitorder="little")
        return tuple(self._preferred[bits[self._bits] > 0].tolist())

    def __call__(self, text: str | bytes) -> list[int]:
        return self.path_of(text if isinstance(text, bytes) else text.encode())

    def path_of(self, data: bytes) -> list[int]:
        """Return the path of a text without control tokens."""
        return [self._id_of_byte[byte] for byte in data]

    def path_of_token(self, token_id: int) -> list[int]:
        """Return the path of one of the model's tokens."""
        return [token_id] if token_id in self._excluded else self.path_of(self._tokenizer.token_bytes(token_id))

    def tokens_of(self, path: abc.Sequence[int]) -> list[int]:
        """Return the model's usual tokens for a path. Raise ValueError if the vocabulary can't spell it."""
        token_ids: list[int] = []
        data = b""
        for each in path:
            if (byte := self._byte_of_id.get(each)) is not None:
                data += bytes([byte])
            else:
                token_ids += [*self._encode(data), each]
                data = b""
        return token_ids + self._encode(data)

    def _encode(self, data: bytes) -> list[int]:
        """Return the tokens of a text without control tokens. Raise ValueError if the vocabulary can't spell it."""
        token_ids: list[int] = self._full_tokenizer.tokenize_bytes(data) if data else []
        if b"".join(map(self._tokenizer.token_bytes, token_ids)) != data:
            raise ValueError("the vocabulary can't spell the text")
        return token_ids
