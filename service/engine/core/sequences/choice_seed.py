"""The seeds of the choices of one request."""

from __future__ import annotations

import hashlib


def choice_seed(seed: int, choice_index: int) -> int:
    """Return the seed of one choice, 0 ≤ seed < 2**63.

    The first choice keeps the request's seed, so that a request with n = 1 can reproduce any choice.
    """
    if choice_index == 0:
        return seed & (2**63 - 1)
    digest = hashlib.blake2b(f"{seed}/{choice_index}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
