"""Sliding layers with blocks of their own: the groups of layers, and the same bits as with one table for all layers."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import sluice_native
from numpy.typing import NDArray

from service.engine.interface.cache_group import max_blocks
from service.engine.models.native.cache_groups import LayerGroups, group_layers, group_plan
from service.engine.models.plans.families.table import plan_of
from tests.models.shapes import MAX_POSITIONS, VOCAB_SIZE, small
from tests.native.decoders import ints

BLOCK_SIZE = 16
# The window of each layer (0: none), and the expected number of layers of each group.
LAYERS: dict[str, tuple[list[int], list[int]]] = {
    "gemma-3-270m": (([512] * 5 + [0]) * 3, [3] * 6),
    "gemma-3-1b": (([512] * 5 + [0]) * 4 + [512] * 2, [4, 4, 4, 4, 4, 4, 2]),
    "gpt-oss": ([128, 0] * 12, [12, 12]),
    "olmo3": ([4096, 4096, 4096, 0] * 8, [8, 8, 8, 8]),
    "mistral": ([4096] * 32, [32]),
    "llama": ([0] * 32, [32]),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "gemma3_text": {"layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]}
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_equal_windows_are_grouped(name: str) -> None:
    """Layers without a window come first, and a block holds as many layers as the smallest kind has."""
    windows, expected = LAYERS[name]
    groups, of_layer = made = group_layers(windows, [100] * len(windows))
    assert [list(of_layer).count(group) for group in range(len(groups))] == expected
    assert [groups[group].window for group in of_layer] == windows
    assert made.block_size([100] * len(windows)) == 100 * max(expected)


def test_groups_are_few_and_blocks_have_little_padding() -> None:
    """Whatever the counts and sizes of layers, there are at most eight groups, and no group is larger than a block."""
    draw = np.random.default_rng(0)
    for _ in range(200):
        windows = draw.choice([0, 64, 512], draw.integers(1, 60), p=[0.2, 0.1, 0.7]).tolist()
        sizes = (16 * draw.integers(1, 5, len(windows))).tolist()
        groups, of_layer = made = group_layers(windows, sizes)
        assert len(groups) <= 8
        assert [groups[group].window for group in of_layer] == windows
        assert max(sizes) <= made.block_size(sizes)
        assert made.block_size(sizes) * len(groups) <= 3 * sum(sizes)


def test_a_long_context_of_gemma_3_takes_below_a_third_of_full_layers() -> None:
    """A context of 32,768 tokens takes at most 0.3 of the bytes of full layers, with padding and the largest chunk."""
    for name in ("gemma-3-270m", "gemma-3-1b"):
        windows, sizes = LAYERS[name][0], [1024] * len(LAYERS[name][0])
        made = group_layers(windows, sizes)
        taken = made.block_size(sizes) * max_blocks(made.groups, 32_768, 2048, BLOCK_SIZE)
        assert taken <= 0.3 * sum(sizes) * 32_768 / BLOCK_SIZE


@cache
def models(kind: str, weight_type: str) -> tuple[sluice_native.Model, sluice_native.Model, LayerGroups]:
    """Return two models with the same random weights: with one group of layers, and with groups by window."""
    plan = plan_of(small(kind, **OPTIONS.get(kind, {})))
    both = [sluice_native.Model(plan.to_native(), weight_type=weight_type) for _ in range(2)]
    draw = np.random.default_rng(0)
    for name, shape in both[0].tensors().items():
        tensor = draw.normal(1.0 if "norm" in name else 0.0, 0.2, shape).astype(np.float32)
        for model in both:
            model.load(name, tensor)
    groups = group_plan(plan, MAX_POSITIONS, both[1].bytes_per_slot)
    both[0].allocate(64, BLOCK_SIZE)
    both[1].allocate(64, BLOCK_SIZE, groups.of_layer)
    return both[0], both[1], groups


def compute(model: sluice_native.Model, token_ids: list[int], start: int, tables: Any) -> NDArray[np.float32]:
    """Compute the tokens from `start` on, and return their logits."""
    count = len(token_ids) - start
    return model.step(
        ints(token_ids[start:]), ints(range(start, len(token_ids))), ints([0, count]), ints([len(token_ids)]),
        ints(tables), ints(range(count)),
    )  # fmt: skip


@pytest.mark.parametrize("weight_type", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", ["gemma3_text", "gemma3n_text", "gemma4_text", "gpt_oss", "olmo3", "mistral"])
def test_blocks_outside_of_a_window_have_no_effect(kind: str, weight_type: str) -> None:
    """Logits have the same bits if sliding layers lose each block that no later token attends to.

    A lost block's id is replaced by one that does not exist, and the block is used for later tokens.
    """
    one, grouped, (groups, _) = models(kind, weight_type)
    assert any(group.window for group in groups)
    token_ids: list[int] = np.random.default_rng(1).integers(0, VOCAB_SIZE, 150).tolist()
    free = list(np.random.default_rng(2).permutation(64))
    tables: list[list[int]] = [[] for _ in groups]
    start = 0
    for chunk in (40, 1, 1, 30, 3, 1, 50, *[1] * 24):
        end = start + chunk
        for group, table in zip(groups, tables, strict=True):
            for index in range(group.first_visible(start) // BLOCK_SIZE):
                if table[index] >= 0:
                    free.append(table[index])
                    table[index] = -1
            while len(table) * BLOCK_SIZE < end:
                table.append(free.pop())
        found = compute(grouped, token_ids[:end], start, [[table] for table in tables] if len(tables) > 1 else tables)
        expected = compute(one, token_ids[:end], start, [list(range(-(-end // BLOCK_SIZE)))])
        assert np.isfinite(expected).all()
        assert found.tobytes() == expected.tobytes()
        start = end
    held = sum(block >= 0 for table in tables for block in table)
    assert held < len(groups) * len(tables[0])


def test_a_layer_that_reads_the_keys_of_another_has_no_cache_but_its_group() -> None:
    _, model, made = models("gemma4_text", "float32")
    assert [size > 0 for size in model.bytes_per_slot] == [True, True, False, False]
    assert list(made.of_layer[:2]) == list(made.of_layer[2:])
    with pytest.raises(ValueError, match=r"groups\[2\] must be that of the layer whose keys the layer reads, 0"):
        model.allocate(4, BLOCK_SIZE, [0, 1, 1, 1])


INVALID: dict[str, tuple[list[int], str]] = {
    "too few": ([0], "groups must have 4 elements"),
    "negative": ([-1, 0, 0, 0], r"groups\[0\]"),
    "too large": ([0, 1, 4, 0], r"groups\[2\]"),
    "a group is left out": ([0, 2, 2, 0], "one has no layer"),
}


@pytest.mark.parametrize("name", INVALID)
def test_groups_are_checked(name: str) -> None:
    model = models("gemma3_text", "float32")[0]
    with pytest.raises(ValueError, match=INVALID[name][1]):
        model.allocate(4, BLOCK_SIZE, INVALID[name][0])


def test_block_tables_are_checked() -> None:
    """A batch needs a table for each group, and a visible entry must be a block of the cache."""
    _, model, (groups, _) = models("gemma3_text", "float32")
    with pytest.raises(ValueError, match="block_tables must have tables of"):
        compute(model, [1, 2], 0, [[0]])
    tables = [[[5]] for _ in groups]
    tables[-1] = [[-1]]
    with pytest.raises(ValueError, match=r"block_tables\[\d+\] is -1"):
        compute(model, [1, 2], 0, tables)
