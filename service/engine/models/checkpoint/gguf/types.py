"""The types of a GGUF file's tensors by their numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class BlockType:
    """A type of tensors: numbers, or blocks of integer codes with their scales."""

    number: int
    name: str  # in the format's documentation
    kind: str  # of the native step
    columns: int  # of a block
    num_bytes: int  # of a block
    is_ternary: bool = False  # repacked to blocks of `kind` at load


BLOCKS: Final = {
    each.number: each
    for each in (
        BlockType(0, "F32", "float32", 1, 4),
        BlockType(1, "F16", "float16", 1, 2),
        BlockType(2, "Q4_0", "q4_0", 32, 18),
        BlockType(3, "Q4_1", "q4_1", 32, 20),
        BlockType(6, "Q5_0", "q5_0", 32, 22),
        BlockType(7, "Q5_1", "q5_1", 32, 24),
        BlockType(8, "Q8_0", "q8_0", 32, 34),
        BlockType(10, "Q2_K", "q2_k", 256, 84),
        BlockType(11, "Q3_K", "q3_k", 256, 110),
        BlockType(12, "Q4_K", "q4_k", 256, 144),
        BlockType(13, "Q5_K", "q5_k", 256, 176),
        BlockType(14, "Q6_K", "q6_k", 256, 210),
        BlockType(20, "IQ4_NL", "iq4_nl", 32, 18),
        BlockType(23, "IQ4_XS", "iq4_xs", 256, 136),
        BlockType(30, "BF16", "bfloat16", 1, 2),
        BlockType(34, "TQ1_0", "q2_k", 256, 54, is_ternary=True),
        BlockType(35, "TQ2_0", "q2_k", 256, 66, is_ternary=True),
        BlockType(39, "MXFP4", "mxfp4", 32, 17),
    )
}
# Known types without a packed form, for errors.
UNSUPPORTED: Final = {
    9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 21: "IQ3_S", 22: "IQ2_S",
    24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 40: "NVFP4",
}  # fmt: skip
