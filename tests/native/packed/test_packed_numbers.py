"""Packed weights mean exactly the numbers of their codes, scales and zero points, in every format of checkpoints."""

from __future__ import annotations

import numpy as np
import pytest
import sluice_native
import torch
from numpy.typing import NDArray
from transformers import LlamaConfig

from bench.engine.native.random_blocks import SCALES
from service.engine.models.checkpoint.packed.number_blocks import TABLES
from tests.native.decoders import SMALL, Sequence, exact_plan, rope, step


def head_products(
    kind: str, blocks: NDArray[np.uint8], numbers: NDArray[np.float32], instruction_set: str
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return the logits of two tokens of a model whose layers add nothing, and what they should be.

    `blocks` are those of the head, `numbers` the numbers that they mean.
    """
    plan = exact_plan(LlamaConfig(**SMALL | {"hidden_size": 256, "vocab_size": 64}, rope_parameters=rope()))
    head = "lm_head.weight"
    model = sluice_native.Model(
        plan.to_native(),
        weight_type="packed",
        kinds=lambda name: kind if name == head else "float32",
        instruction_set=instruction_set,
    )
    for name, shape in model.tensors().items():
        weight = np.random.default_rng(1).normal(0, 1, shape).astype(np.float32)
        if "proj" in name:
            weight[:] = 0
        if name == head:
            model.load_blocks(name, blocks)
        elif len(shape) == 2:
            model.load_blocks(name, weight.view(np.uint8))
        else:
            model.load(name, np.ones(shape, np.float32))
        if "embed" in name:
            embedding = weight
    model.allocate(num_blocks=1, block_size=16)
    found = step(model, [(Sequence([5, 9], [0]), 2)])[0]
    x = embedding[[5, 9]].astype(np.float64)
    x /= np.sqrt((x**2).mean(-1, keepdims=True) + plan.norm_epsilon)
    return found, x @ numbers.T.astype(np.float64)


def codes_with_zeros(bits: int, size: int, dtype: str) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Return blocks [64, 256] of codes with a scale and a zero point for each `size` columns, and their numbers."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 1 << bits, (64, 256 // size, size), dtype=np.uint8)
    zeros = rng.integers(0, 1 << bits, (64, 256 // size, 1), dtype=np.uint8)
    scales = torch.from_numpy(rng.uniform(0.01, 0.02, zeros.shape)).to(getattr(torch, dtype))
    stored = scales.view(torch.uint8).numpy()
    padded = np.concatenate([stored, np.zeros((*stored.shape[:2], 4 - stored.shape[2]), np.uint8)], axis=-1)
    blocks = np.concatenate([padded, zeros, np.zeros((*zeros.shape[:2], 3), np.uint8), codes], axis=-1)
    numbers = (codes.astype(np.float32) - zeros) * scales.float().numpy()
    return blocks.reshape(64, -1), numbers.reshape(64, 256)


@pytest.mark.parametrize("size", [16, 32, 64, 128, 256])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_codes_with_scales_and_zero_points(bits: int, size: int, dtype: str) -> None:
    blocks, numbers = codes_with_zeros(bits, size, dtype)
    found, expected = head_products(f"u{bits}.g{size}.{dtype}", blocks, numbers, "auto")
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * numbers.std() * 16)


def numbers_with_scales(kind: str, size: int) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Return blocks [64, 256] of every code with a scale for each `size` columns, and their numbers."""
    rng = np.random.default_rng(0)
    scales = rng.uniform(0.01, 0.02, (64, 256 // size, 1)).astype(np.float32)
    codes = rng.permuted(np.tile(np.arange(256), (64, 1)), axis=1).astype(np.uint8)
    if kind == "f8":
        codes[codes & 127 == 127] = 0  # these are no numbers
        numbers = torch.from_numpy(codes).view(torch.float8_e4m3fn).float().numpy()
        stored = codes
    else:
        numbers = TABLES[kind][codes & 15]
        stored = (codes[:, 0::2] & 15 | codes[:, 1::2] << 4).astype(np.uint8)
    blocks = np.concatenate([scales.view(np.uint8), stored.reshape(64, 256 // size, -1)], axis=-1)
    return blocks.reshape(64, -1), (numbers.reshape(64, -1, size) * scales).reshape(64, 256)


def nvfp4_numbers() -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Return blocks [64, 256] of NVFP4 with every code and many scales, and their numbers."""
    rng = np.random.default_rng(0)
    codes = rng.permuted(np.tile(np.arange(16), (64, 16, 1)), axis=-1).astype(np.uint8)
    scales = rng.integers(40, 127, (64, 16, 1), dtype=np.uint8)
    blocks = np.zeros((64, 16, 16), np.uint8)
    whole = np.float32(0.0123)
    blocks[..., :4] = np.array([whole]).view(np.uint8)
    blocks[..., 4:5] = scales
    blocks[..., 8:] = codes[..., ::2] | codes[..., 1::2] << 4
    table = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
    factors = torch.from_numpy(scales).view(torch.float8_e4m3fn).float().numpy() * whole
    return blocks.reshape(64, -1), (np.concatenate([table, -table])[codes] * factors).reshape(64, 256)


@pytest.mark.parametrize("instruction_set", sluice_native.instruction_sets())
def test_nvfp4(instruction_set: str) -> None:
    blocks, numbers = nvfp4_numbers()
    found, expected = head_products("nvfp4", blocks, numbers, instruction_set)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * numbers.std() * 16)


@pytest.mark.parametrize("instruction_set", sluice_native.instruction_sets())
@pytest.mark.parametrize(("kind", "size"), [("f8", 128), ("f8", 16), ("nf4", 64), ("nf4", 16), ("fp4", 64)])
def test_numbers_with_scales(kind: str, size: int, instruction_set: str) -> None:
    blocks, numbers = numbers_with_scales(kind, size)
    found, expected = head_products(f"{kind}.g{size}", blocks, numbers, instruction_set)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * numbers.std() * 16)


# What each set multiplies for codes and for numbers, and in how many lanes; none uses the kernels of the portable set.
PRODUCTS = {
    "amx": ("bytes x 16", "float32 x 16"),
    "avx512bf16": ("bytes x 16", "float32 x 16"),
    "avx512": ("pairs x 16", "float32 x 16"),
    "avx2": ("pairs x 8", "float32 x 8"),
    "neonbf16": ("pairs x 4", "float32 x 4"),
    "portable": ("pairs x 4", "float32 x 4"),
}
CODES = (
    *(kind for kind in SCALES),
    "nvfp4",
    *(f"u{bits}.g{size}.float16" for bits in (2, 3, 4, 8) for size in (16, 128)),
)
NUMBERS = ("float32", "float16", "bfloat16", "f8.g128", "nf4.g64", "fp4.g64")


@pytest.mark.parametrize("kind", [*CODES, *NUMBERS])
def test_every_format_has_products_in_every_set(kind: str) -> None:
    for instruction_set in sluice_native.instruction_sets():
        codes, numbers = PRODUCTS[instruction_set]
        assert sluice_native.packed_product(kind, instruction_set) == (codes if kind in CODES else numbers)


@pytest.mark.parametrize(
    ("kind", "instruction_set", "message"),
    [("q9_z", "portable", "kind: q9_z is unknown"), ("q8_0", "sse", "instruction_set: sse is not in this build")],
)
def test_unknown_formats_and_sets_have_no_products(kind: str, instruction_set: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sluice_native.packed_product(kind, instruction_set)
