"""The cache groups of a plan's layers: layers with the same window share block tables.

All groups take blocks of one size from one pool, so the layers of a kind are divided into groups of about equal sizes:
Gemma 3's 1 B has 4 layers without a window and 22 with one, which makes 7 groups of at most 4 layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from service.engine.interface.cache_group import ONE_GROUP, CacheGroup, max_blocks
from service.engine.models.plans.plan import AttentionPlan, DecoderPlan, LayerPlan
from service.engine.models.plans.sizes import layer_cache_bytes

_MOST_GROUPS: Final = 8  # each has its own block tables, which take time in each step


class LayerGroups(NamedTuple):
    """The groups of a model's layers, those without a window first. `of_layer` has the index of each layer's group."""

    groups: Sequence[CacheGroup]
    of_layer: Sequence[int]

    def block_size(self, sizes: Sequence[int]) -> int:
        """Return the size of a block that holds any group's layers, of which `sizes` has the sizes."""
        totals = [0] * len(self.groups)
        for group, size in zip(self.of_layer, sizes, strict=True):
            totals[group] += size
        return max(totals)


def one_group(num_layers: int) -> LayerGroups:
    """Return a single group, which keeps all tokens."""
    return LayerGroups(ONE_GROUP, [0] * num_layers)


def group_plan(plan: DecoderPlan, max_positions: int, sizes: Sequence[int]) -> LayerGroups:
    """Return the groups of a plan's layers for sequences of at most `max_positions` tokens, see `group_layers`.

    A layer that reads the keys of another one is in its group.
    A model with recurrent layers has one group, since a sequence can return to an earlier state, before drafts.
    """
    if any(layer.recurrent is not None or layer.attention is None for layer in plan.layers):
        return one_group(len(plan.layers))
    own = [i for i, layer in enumerate(plan.layers) if _keys_back(layer) == 0]
    windows = [plan.layers[i].window for i in own]
    made = group_layers([window if window < max_positions else 0 for window in windows], [sizes[i] for i in own])
    group_of = dict(zip(own, made.of_layer, strict=True))
    return LayerGroups(made.groups, [group_of[i - _keys_back(layer)] for i, layer in enumerate(plan.layers)])


def _keys_back(layer: LayerPlan) -> int:
    return layer.attention.keys_back if isinstance(layer.attention, AttentionPlan) else 0


def max_cache_bytes(plan: DecoderPlan, num_tokens: int, max_chunk: int, block_size: int, dtype: str) -> int:
    """Return the most bytes of a sequence's cache of a type, with chunks of at most `max_chunk` tokens."""
    sizes = [layer_cache_bytes(layer, dtype) for layer in plan.layers]
    made = group_plan(plan, num_tokens, sizes)
    num_blocks = max_blocks(made.groups, num_tokens, max_chunk, block_size)
    return num_blocks * made.block_size(sizes) * block_size


def group_layers(windows: Sequence[int], sizes: Sequence[int]) -> LayerGroups:
    """Return the groups of layers with the given windows (0: none), and sizes of their part of a block.

    The groups are those that take the least memory: in all groups together, as a short context does, plus in those
    without a window, as a long one does.
    """
    kinds: dict[int, list[int]] = {window: [] for window in sorted(set(windows))}
    for layer, window in enumerate(windows):
        kinds[window].append(layer)
    most_groups = max(_MOST_GROUPS, len(kinds))
    wanted = {total for layers in kinds.values() for total in accumulate(sizes[layer] for layer in layers)}
    choices = []
    for most in sorted(wanted, reverse=True):
        parts = [(window, part) for window, layers in kinds.items() for part in _divide(layers, sizes, most)]
        if most >= max(sizes) and len(parts) <= most_groups:
            num_full = sum(window == 0 for window, _ in parts)
            choices.append((most * (len(parts) + num_full), len(parts), parts))
    _, _, parts = min(choices, key=lambda choice: choice[:2])
    of_layer = [0] * len(windows)
    for group, (_, layers) in enumerate(parts):
        for layer in layers:
            of_layer[layer] = group
    return LayerGroups([CacheGroup(window) for window, _ in parts], of_layer)


def _divide(layers: Sequence[int], sizes: Sequence[int], most: int) -> list[list[int]]:
    """Divide layers in order into parts of at most the size `most`."""
    parts: list[list[int]] = []
    total = most
    for layer in layers:
        if total + sizes[layer] > most:
            parts.append([])
            total = 0
        parts[-1].append(layer)
        total += sizes[layer]
    return parts
