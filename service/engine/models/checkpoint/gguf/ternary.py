"""Ternary blocks of GGUF files, TQ1_0 and TQ2_0, repacked at load to Q2_K blocks of exactly the same numbers.

A block has 256 weights of -d, 0 or d. Q2_K means `d * q - d` for a code q of two bits, with all its scales 1.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from service.engine.models.checkpoint.gguf.types import BlockType

Bytes = npt.NDArray[np.uint8]

_CODE_BYTES: Final = 64  # of TQ2_0 and Q2_K, whose codes are in the same order
_SCALE_BYTES: Final = 2
_Q2_K_BYTES: Final = 16 + _CODE_BYTES + 2 * _SCALE_BYTES
_ONES: Final = 0x11  # the scales of codes and of offsets of 16 weights, which are 1
_POWERS: Final = np.array([1, 3, 9, 27, 81], np.uint8)


def repacked(stored: BlockType, rows: Bytes) -> Bytes:
    """Return rows of a type's blocks, repacked if they are ternary."""
    if not stored.is_ternary:
        return rows
    blocks = rows.reshape(-1, stored.num_bytes)
    codes, scale = blocks[:, :-_SCALE_BYTES], blocks[:, -_SCALE_BYTES:]
    if codes.shape[1] < _CODE_BYTES:  # TQ1_0
        codes = _in_two_bits(_ternary_digits(codes))
    ones = np.full((len(blocks), 16), _ONES, np.uint8)
    return np.concatenate([ones, codes, scale, scale], axis=1).reshape(len(rows), -1)


def added_bytes(stored: BlockType, num_bytes: int) -> int:
    """Return how many bytes more than in the file blocks of `num_bytes` take when they are repacked."""
    return num_bytes // stored.num_bytes * (_Q2_K_BYTES - stored.num_bytes) if stored.is_ternary else 0


def _ternary_digits(codes: Bytes) -> Bytes:
    """Return the 256 digits of each TQ1_0 block: five of a byte, but four of the last four bytes."""
    parts = ((codes[:, :32], 5), (codes[:, 32:48], 5), (codes[:, 48:], 4))
    return np.concatenate([_digits(part, count) for part, count in parts], axis=1)


def _digits(codes: Bytes, count: int) -> Bytes:
    """Return the first digits of all bytes, then the second ones, and so on. A byte is a fraction of 256."""
    shifted = codes[:, None, :] * _POWERS[:count, None]  # modulo 256
    digits: npt.NDArray[Any] = (shifted.astype(np.uint16) * 3) >> 8
    return digits.astype(np.uint8).reshape(len(codes), -1)


def _in_two_bits(digits: Bytes) -> Bytes:
    """Return the codes of Q2_K: a byte has those of four weights at a distance of 32."""
    parts = digits.reshape(len(digits), 2, 4, 32)
    packed = parts[:, :, 0] | parts[:, :, 1] << 2 | parts[:, :, 2] << 4 | parts[:, :, 3] << 6
    return packed.astype(np.uint8).reshape(len(digits), _CODE_BYTES)
