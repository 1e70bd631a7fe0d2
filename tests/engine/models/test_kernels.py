"""The kernels for GPUs give the results of plain operators, in Triton's interpreter on a CPU.

It knows no bfloat16, and its sums have another order than a device's: bits are tested by the tests marked `cuda`.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from service.engine.models.attention.accelerator import Accelerator
from service.engine.models.attention.decode_graphs import GraphLimits
from service.engine.models.attention.device_kernels import HeadNormWeights
from service.engine.models.attention.kv_cache import CacheShape
from service.engine.models.attention.page_cache import PageCache
from service.engine.models.attention.paged_inputs import PagedInputs
from service.engine.models.attention.scores import Scores
from service.engine.models.checkpoint.checkpoint import Checkpoint
from service.engine.models.torch.layers.ops import rotation_table
from service.engine.models.torch.load_decoder import load_decoder
from tests.engine.accelerator_double import PlainKernels, RunAgain
from tests.engine.folders.tiny_models import BLOCK_SIZE, NUM_BLOCKS, Part, batch_of, run, tokens
from tests.models.comparison import save
from tests.models.families import LENGTH, logits_of, model_of, some_tokens

pytestmark = pytest.mark.kernels
CPU = torch.device("cpu")
PAGE = 16
PARTS = [
    Part(tokens(600), 599, 600, [*range(37, -1, -1)]),  # a decode of three parts
    Part(tokens(300, seed=1), 260, 300, [*range(38, 57)]),  # a chunk over two parts
    Part(tokens(40, seed=2), 0, 40, [58, 57, 59]),  # a prompt
    Part(tokens(1, seed=3), 0, 1, [60]),
]
PLAIN = PlainKernels()
close = partial(torch.testing.assert_close, atol=1e-4, rtol=1e-4)


@pytest.fixture(scope="module", params=[False, True], ids=["library", "invariant"])
def kernels(request: pytest.FixtureRequest) -> Any:
    from service.engine.models.cuda.kernels import TritonKernels  # noqa: PLC0415  Triton is not installed on CPUs

    torch.manual_seed(0)
    return TritonKernels(1024, is_invariant=request.param)


def inputs_and_cache(num_kv_heads: int, dim: int, dtype: torch.dtype) -> tuple[PagedInputs, PageCache]:
    cache = PageCache(CacheShape(1, num_kv_heads, dim, dim, dtype), 64, PAGE, CPU)
    for pages in cache.pages(0):
        pages.normal_()
    return PagedInputs.from_batch(batch_of(PARTS, PAGE), PAGE, CPU), cache


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(
    ("heads", "dim", "scores", "window", "sinks"),
    [
        ((8, 2), 64, Scores(0.125), None, None),
        ((7, 1), 32, Scores(0.2), 100, torch.linspace(-2, 3, 7)),
        ((4, 4), 80, Scores(0.1, 30.0), None, None),
        ((128, 1), 16, Scores(0.25), 1, None),
    ],
)
def test_attention(
    kernels: Any,
    heads: tuple[int, int],
    dim: int,
    *,
    scores: Scores,
    window: int | None,
    sinks: torch.Tensor | None,
    dtype: torch.dtype,
) -> None:
    num_heads, num_kv_heads = heads
    inputs, cache = inputs_and_cache(num_kv_heads, dim, dtype)
    projected = torch.randn(len(inputs.token_ids), num_heads + 2 * num_kv_heads, dim, dtype=dtype)
    sinks = None if sinks is None else sinks.to(dtype)
    found, expected = (
        each.attend(projected[:, :num_heads], cache, 0, inputs, scores=scores, window=window, sinks=sinks)
        for each in (kernels, PLAIN)
    )
    tolerance = 1e-4 if dtype == torch.float32 else 2e-3
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("is_last", [None, False, True])
@pytest.mark.parametrize(("dim", "num_rotated"), [(64, 64), (80, 32), (48, 0)])
def test_heads_are_normalized_rotated_and_stored(
    kernels: Any, dim: int, num_rotated: int, *, is_last: bool | None
) -> None:
    """Also with a norm before the rotation, after it, and without one."""
    num_heads, num_kv_heads = 6, 2
    given = torch.randn(sum(part.end - part.start for part in PARTS), num_heads + 2 * num_kv_heads, dim)
    rotations = rotation_table(torch.rand(num_rotated // 2), 1.0, 700) if num_rotated else None
    weight = torch.randn(num_heads + num_kv_heads, dim)
    norm = None if is_last is None else HeadNormWeights(weight, 1e-5, is_last)
    results = []
    for each in (kernels, PLAIN):
        torch.manual_seed(1)
        inputs, cache = inputs_and_cache(num_kv_heads, dim, torch.float32)
        heads = given.clone()
        each.prepare_heads(heads, num_heads, rotations=rotations, norm=norm, cache=cache, layer=0, inputs=inputs)
        results.append((heads[:, :num_heads], *cache.pages(0)))
    for found, expected in zip(*results, strict=True):
        close(found, expected)


@pytest.mark.parametrize("activation", ["silu", "gelu", "gelu_tanh", "relu", "squared_relu"])
def test_norms_and_activations(kernels: Any, activation: str) -> None:
    x, weight = torch.randn(5, 1_100), torch.randn(1_100)
    close(kernels.rms_norm(x, weight, 1e-5), PLAIN.rms_norm(x, weight, 1e-5))
    values: Any = torch.randn(3, 2 * 1_100)
    name: Any = activation
    close(kernels.gated(values, name), PLAIN.gated(values, name))


@pytest.mark.parametrize(("rows", "outputs", "inputs"), [(1, 100, 1_200), (70, 130, 1_500), (300, 200, 1_100)])
def test_products(kernels: Any, rows: int, outputs: int, inputs: int) -> None:
    """In parts, and with numbers of rows, outputs and inputs that fill no tile."""
    x, weight = torch.randn(rows, inputs), torch.randn(outputs, inputs) / inputs**0.5
    bias, residual = torch.randn(outputs), torch.randn(rows, outputs)
    found, expected = (each.linear(weight, bias) for each in (kernels, PLAIN))
    close(found(x), expected(x))
    close(found.add_to(residual, x), expected.add_to(residual, x))


@pytest.mark.parametrize("num_tokens", [1, 90])
def test_experts(kernels: Any, num_tokens: int) -> None:
    """An expert that many tokens have chosen has several tiles; others have one or none."""
    num_experts, hidden, width = 8, 160, 96
    gate_up = torch.randn(num_experts, 2 * width, hidden) / 10, torch.randn(num_experts, 2 * width)
    down = torch.randn(num_experts, hidden, width) / 10, None
    x, weights = torch.randn(num_tokens, hidden), torch.rand(num_tokens, 3)
    chosen = torch.stack([torch.randperm(5)[:3] for _ in range(num_tokens)])
    chosen[:, 0] = 7
    found, expected = (
        each.experts(gate_up, down, partial(PLAIN.gated, activation="silu"))(x, chosen, weights)
        for each in (kernels, PLAIN)
    )
    close(found, expected)


# Soft caps and windows; sinks and limited experts; routed and shared experts; whole norms; norms after the rotation.
@pytest.mark.parametrize("name", ["gemma2", "gpt_oss", "qwen2_moe", "olmo2", "hunyuan_v1_dense"])
def test_logits_are_those_of_transformers(kernels: Any, name: str, tmp_path: Path) -> None:
    model, ids, other = model_of(name), some_tokens(0), some_tokens(1, 40)
    save(model, tmp_path)
    accelerator = Accelerator(kernels, RunAgain(), GraphLimits(4, 128, 1 << 30))
    decoder = load_decoder(model.config, Checkpoint(tmp_path), torch.float32, CPU, 128, accelerator=accelerator)
    decoder.allocate(NUM_BLOCKS, BLOCK_SIZE)
    table = [31, 2, 17, 5, 30, 9, 11, 0, 22, 4, 6, 8]
    found = [
        run(decoder, [Part(ids, start, end, table), Part(other, 0, 9, [20, 21])])[0]
        for start, end in pairwise([0, 50, 51, 52, 69, LENGTH])
    ]
    assert np.abs(torch.cat(found).numpy() - logits_of(model, ids)).max() <= 1e-4
