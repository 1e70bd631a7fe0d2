"""The green lists of Kirchenbauer et al., A Watermark for Large Language Models (arXiv 2301.10226), and their z-score.

Owns who is green: a function of the key, of the token before and of the token itself, with no state, so that whoever
has the key can tell again. Pure; any thread may call it. Knows neither logits nor text.
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
    """The scheme's parameters. Raises ValueError with the field's name for a value that can't work.

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
        """Whether each of `candidates` is green after each of `previous`, [previous, candidates].

        `candidates` holds token ids, the same for all [candidates] or some for each [previous, candidates]. A token is
        green if its hash lies in the lowest `gamma` of all, so a list has that part of the vocabulary nearly, not
        exactly: that spares shuffling the vocabulary.
        """
        state = np.array([self._list_seed(token_id) for token_id in previous], dtype=np.uint32)[:, None]
        return _mix(state + candidates * _STEP) < np.uint32(self.gamma * 2**32)

    def _list_seed(self, token_id: int) -> int:
        """32 bits that name the green list after a token."""
        digest = hashlib.blake2b(token_id.to_bytes(4, "little"), key=self.key.encode(), digest_size=4)
        return int.from_bytes(digest.digest(), "little")


@dataclass(frozen=True, slots=True)
class WatermarkScore:
    """How green a text is. Without the watermark `z_score` is close to a standard normal variable."""

    z_score: float
    num_tokens: int  # that were scored
    green_fraction: float  # of those

    @property
    def p_value(self) -> float:
        """The probability that a text without the watermark scores as high."""
        return 0.5 * math.erfc(self.z_score / math.sqrt(2))


def detect(watermark: Watermark, token_ids: Sequence[int]) -> WatermarkScore:
    """The paper's z-score, (greens - gamma·T) / sqrt(T·gamma·(1 - gamma)), over T scored tokens.

    A pair of a token and the one before it is scored once, however often it stands in the text: repeated pairs are not
    independent, and would make any text that repeats itself look certain (the paper's section on repetitions). The
    first token has none before it and is not scored. Raises ValueError for fewer than two tokens.
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
    """Mix in place, so that every bit depends on all; shifts and factors are from Wellons' hash prospector."""
    z ^= z >> np.uint32(16)
    z *= np.uint32(0x21F0AAAD)
    z ^= z >> np.uint32(15)
    z *= np.uint32(0xD35A2D97)
    z ^= z >> np.uint32(15)
    return z
