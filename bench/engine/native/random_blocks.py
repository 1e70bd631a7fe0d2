"""Random blocks of the formats of GGUF files, whose numbers have about the size of a model's weights."""

from __future__ import annotations

from typing import Final

import gguf
import numpy as np
from numpy.typing import NDArray

# The positions of scales in a block, and their sizes: numbers of about 0.07, around 0.
SCALES: Final[dict[str, dict[int, float]]] = {
    "q8_0": {0: 0.001},
    "q4_0": {0: 0.015},
    "q4_1": {0: 0.02, 2: -0.15},
    "q5_0": {0: 0.007},
    "q5_1": {0: 0.01, 2: -0.155},
    "q2_k": {80: 0.01, 82: 0.015},
    "q3_k": {108: 0.0015},
    "q4_k": {0: 0.0005, 2: 0.0038},
    "q5_k": {0: 0.0002, 2: 0.0031},
    "q6_k": {208: 0.00005},
    "iq4_nl": {0: 0.001},
    "iq4_xs": {0: 0.00005},
    "mxfp4": {},
}
_EXPONENTS: Final = (120, 123)  # of MXFP4's scales, with their offset


def block_type(kind: str) -> gguf.GGMLQuantizationType:
    """Return the format of that name in llama.cpp's package."""
    return gguf.GGMLQuantizationType[kind.upper()]


def random_blocks(kind: str, rows: int, columns: int, random: np.random.Generator) -> NDArray[np.uint8]:
    """Return rows of random blocks, uint8 [rows, bytes]."""
    size, num_bytes = gguf.GGML_QUANT_SIZES[block_type(kind)]
    blocks = random.integers(0, 256, (rows, columns // size, num_bytes), dtype=np.uint8)
    for at, scale in SCALES[kind].items():
        scales = random.uniform(0.5, 1.0, (rows, columns // size, 1)) * scale
        blocks[:, :, at : at + 2] = scales.astype(np.float16).view(np.uint8)
    if kind == "mxfp4":
        blocks[:, :, 0] = random.integers(*_EXPONENTS, (rows, columns // size))
    return blocks.reshape(rows, -1)


def numbers_of(kind: str, blocks: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the numbers that blocks mean, as llama.cpp's package computes them."""
    numbers: NDArray[np.float32] = gguf.dequantize(blocks, block_type(kind))
    return numbers
