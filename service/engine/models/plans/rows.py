"""The rows of a checkpoint's tensors that the step's modules consist of."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from service.engine.models.plans.plan import DecoderPlan, LayerPlan
from service.engine.models.plans.sources import RowsOf, Source


def first_rows(_: DecoderPlan, layer: LayerPlan) -> slice:
    """Return the gate's rows of a module that stacks gate and up."""
    return slice(0, layer.feed_forward.width)


def second_rows(_: DecoderPlan, layer: LayerPlan) -> slice:
    """Return up's rows of a module that stacks gate and up."""
    return slice(layer.feed_forward.width, 2 * layer.feed_forward.width)


def query_rows(_: DecoderPlan, layer: LayerPlan) -> slice:
    """Return the queries' rows of a module that stacks queries, keys and values."""
    attention = layer.heads
    return slice(0, attention.num_heads * attention.head_dim)


def key_rows(_: DecoderPlan, layer: LayerPlan) -> slice:
    """Return the keys' rows of a module that stacks queries, keys and values."""
    attention = layer.heads
    first = attention.num_heads * attention.head_dim
    return slice(first, first + attention.num_kv_heads * attention.head_dim)


def value_rows(_: DecoderPlan, layer: LayerPlan) -> slice:
    """Return the values' rows of a module that stacks queries, keys and values."""
    attention = layer.heads
    first = (attention.num_heads + attention.num_kv_heads) * attention.head_dim
    return slice(first, first + attention.num_kv_heads * attention.head_dim)


def grouped_rows(kind: str) -> RowsOf:
    """Return a function for modules that stack, for each kv head, its queries, its key and its value.

    `kind` is queries, keys or values.
    """

    def rows(_: DecoderPlan, layer: LayerPlan) -> NDArray[np.intp]:
        attention = layer.heads
        group = attention.num_heads // attention.num_kv_heads
        whole = np.arange(attention.num_kv_heads * (group + 2) * attention.head_dim)
        heads = whole.reshape(attention.num_kv_heads, group + 2, attention.head_dim)
        chosen = {"queries": heads[:, :group], "keys": heads[:, group], "values": heads[:, group + 1]}[kind]
        return chosen.reshape(-1)

    return rows


def halved_rows(kind: str) -> RowsOf:
    """Return a function for queries or keys whose rotated dimensions are adjacent pairs (2i, 2i + 1).

    The step rotates the pairs (i, i + half). The order of a head's dimensions doesn't matter elsewhere.
    """

    def rows(plan: DecoderPlan, layer: LayerPlan) -> NDArray[np.intp]:
        attention = layer.heads
        num_heads = attention.num_heads if kind == "queries" else attention.num_kv_heads
        rotated = 2 * len(plan.rotary[max(attention.rotary, 0)].inverse_frequencies)
        order = np.concatenate(
            [np.arange(0, rotated, 2), np.arange(1, rotated, 2), np.arange(rotated, attention.head_dim)]
        )
        all_rows: NDArray[np.intp] = (np.arange(num_heads)[:, None] * attention.head_dim + order).reshape(-1)
        return all_rows

    return rows


STACKED_GATE_UP = {
    "mlp.gate_proj": Source("mlp.gate_up_proj", rows=first_rows),
    "mlp.up_proj": Source("mlp.gate_up_proj", rows=second_rows),
}
HALVED_ROTATION = {
    "self_attn.q_proj": Source("self_attn.q_proj", rows=halved_rows("queries")),
    "self_attn.k_proj": Source("self_attn.k_proj", rows=halved_rows("keys")),
}
