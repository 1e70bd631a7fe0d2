"""The digest of a choice's tokens, with a checksum per token that shows where two choices begin to differ."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from service.receipts.base64url import from_text, to_text

_CHECKSUM_SIZE: Final = 2  # bytes per token
_ID_SIZE: Final = 4


class TokenChain:
    """Hashes tokens one after the other: the link of a token is the SHA-256 of the previous link and the token's id.

    The digest is the last link, and the checksum of a token the first bytes of its link. So all checksums are equal up
    to the first token that differs, and those after it differ.
    """

    def __init__(self) -> None:
        self._link = b""
        self._checksums = bytearray()

    def add(self, token_ids: Iterable[int]) -> None:
        """Add the next tokens."""
        link = self._link
        for token_id in token_ids:
            link = hashlib.sha256(link + token_id.to_bytes(_ID_SIZE, "big")).digest()
            self._checksums += link[:_CHECKSUM_SIZE]
        self._link = link

    def claim(self) -> dict[str, Any]:
        """Return the claim of a receipt about this choice."""
        num_tokens = len(self._checksums) // _CHECKSUM_SIZE
        return {"num_tokens": num_tokens, "digest": self._link.hex(), "checksums": to_text(self._checksums)}


def first_difference(first: Mapping[str, Any], second: Mapping[str, Any]) -> int | None:
    """Return the index of the first token in which the choices of two claims differ, or None if they are equal.

    It is the shorter length if one choice is the beginning of the other. A checksum has 16 bits: with a probability of
    1 in 65,536 the index is one too high.
    """
    if first["num_tokens"] == second["num_tokens"] and first["digest"] == second["digest"]:
        return None
    length: int = min(first["num_tokens"], second["num_tokens"])
    mine, others = from_text(first["checksums"]), from_text(second["checksums"])
    for index in range(length):
        part = slice(index * _CHECKSUM_SIZE, (index + 1) * _CHECKSUM_SIZE)
        if mine[part] != others[part]:
            return index
    return length if first["num_tokens"] != second["num_tokens"] else length - 1
