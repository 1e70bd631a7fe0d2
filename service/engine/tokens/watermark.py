"""The green lists of Kirchenbauer et al., A Watermark for Large Language Models (arXiv 2301.10226), and their z-score.

A token is green by a function of the key, the previous token and the token itself. The function has no state, so
anyone with the key can detect the watermark. All functions are pure, and any thread may call them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from process.settings.setting import check_ranges, setting

_STEP = np.uint32(0x9E3779B9)  # 2**32 over the golden ratio: neighbouring ids start far apart


@dataclass(frozen=True, slots=True)
class Watermark:
    """The parameters of the scheme. Raise ValueError with the field's name for an invalid value.

    The defaults are those of the paper's main results. `delta` is added to the logits before they are divided by the
    temperature. The key detects the watermark and can imitate it; the default key is public.
    """

    gamma: float = field(
        default=0.25,
        metadata=setting("fraction of the vocabulary that is made more likely after each token", gt=0, lt=1),
    )
    delta: float = field(default=2.0, metadata=setting("increase of the logits of these tokens", gt=0))
    key: str = field(
        default="sluice",
        repr=False,
        metadata=setting("secret of 1 to 64 bytes that marks texts and detects the mark; the default is public"),
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        if not self.delta < math.inf:
            raise ValueError(f"delta must be finite, not {self.delta}")
        if not 1 <= len(self.key.encode()) <= hashlib.blake2b.MAX_KEY_SIZE:
            raise ValueError(f"key must have from 1 to {hashlib.blake2b.MAX_KEY_SIZE} bytes")

    def greens(self, previous: Sequence[int], candidates: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """Return a mask [previous, candidates] that is True if a candidate is green after a previous token.

        `candidates` holds token ids, the same for all [candidates] or some for each [previous, candidates]. A token is
        green if its hash is in the lowest fraction `gamma` of all hashes. So a green list has approximately, not
        exactly, that fraction of the vocabulary, but the vocabulary need not be shuffled.
        """
        state = np.array([self._list_seed(token_id) for token_id in previous], dtype=np.uint32)[:, None]
        return _mix(state + candidates * _STEP) < np.uint32(self.gamma * 2**32)

    def _list_seed(self, token_id: int) -> int:
        """Return the 32-bit seed of the green list after a token."""
        digest = hashlib.blake2b(token_id.to_bytes(4, "little"), key=self.key.encode(), digest_size=4)
        return int.from_bytes(digest.digest(), "little")


@dataclass(frozen=True, slots=True)
class WatermarkScore:
    """The watermark score of a text. Without the watermark `z_score` is close to a standard normal variable."""

    z_score: float
    num_tokens: int  # scored tokens
    green_fraction: float  # of the scored tokens

    @property
    def p_value(self) -> float:
        """The probability that a text without the watermark has at least this score."""
        return 0.5 * math.erfc(self.z_score / math.sqrt(2))


def detect(watermark: Watermark, token_ids: Sequence[int]) -> WatermarkScore:
    """Return the paper's z-score, (greens - gamma·T) / sqrt(T·gamma·(1 - gamma)), over T scored tokens.

    Each distinct pair of adjacent tokens is scored once. Repeated pairs are not independent and would give repetitive
    text a high score (see the paper's section on repetitions). The first token has no predecessor and is not scored.
    Raise ValueError for fewer than two tokens.
    """
    pairs = sorted(set(pairwise(token_ids)))
    if not pairs:
        raise ValueError("at least two tokens are needed")
    previous, tokens = zip(*pairs, strict=True)
    num_green = int(watermark.greens(previous, np.array(tokens, dtype=np.uint32)[:, None]).sum())
    num_pairs, gamma = len(pairs), watermark.gamma
    z_score = (num_green - gamma * num_pairs) / math.sqrt(num_pairs * gamma * (1 - gamma))
    return WatermarkScore(z_score, num_pairs, num_green / num_pairs)


def _mix(z: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Mix in place, so that each bit depends on all bits. Shifts and factors are from Wellons' hash prospector."""
    z ^= z >> np.uint32(16)
    z *= np.uint32(0x21F0AAAD)
    z ^= z >> np.uint32(15)
    z *= np.uint32(0xD35A2D97)
    z ^= z >> np.uint32(15)
    return z
