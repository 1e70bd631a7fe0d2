"""The shard of a model that one rank of tensor parallelism holds. The module does not import torch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from service.engine.models.checkpoint.checkpoint import TensorSlice
from service.engine.models.plans.families.table import plan_of
from service.engine.models.plans.plan import AttentionPlan, DecoderPlan, ExpertsPlan, LayerPlan
from service.engine.models.plans.sources import Shape
from service.engine.models.torch.step_tensors import all_tensor_shapes
from service.engine.models.torch.supported import decoder_unsupported_reason

_VOCABULARY = ("model.embed_tokens", "lm_head")
_OUTPUTS = ("q_proj", "gate_proj", "up_proj", "sinks")
_KEYS = ("k_proj", "v_proj")
_SUMMED = ("o_proj", "down_proj")


@dataclass(frozen=True, slots=True)
class Shard:
    """The shard of rank `rank` of `num_ranks`: contiguous heads, inner units and vocabulary rows."""

    rank: int = 0
    num_ranks: int = 1

    def attention_of(self, whole: AttentionPlan) -> AttentionPlan:
        """Return the rank's heads of a layer's attention."""
        num_kv_heads = max(1, whole.num_kv_heads // self.num_ranks)
        return replace(whole, num_heads=whole.num_heads // self.num_ranks, num_kv_heads=num_kv_heads)

    def part_of(self, name: str, shape: Shape, plan: DecoderPlan) -> TensorSlice | None:
        """Return the rank's slice of the step's tensor `name`, whose whole shape is given; None: all of it."""
        if self.num_ranks == 1:
            return None
        module, _, kind = name.rpartition(".")
        last = module.rpartition(".")[2]
        if module in _VOCABULARY:
            return self.vocabulary(plan.vocab_size)
        if last in _SUMMED and kind == "weight":
            return self._part(1, shape[1])
        if last in _OUTPUTS or kind in _OUTPUTS:
            return self._part(0, shape[0])
        if last in {"q_norm", "k_norm"} or last in _KEYS:
            return self._part_of_heads(last, plan.layers[int(name.split(".")[2])].heads)
        return None

    def vocabulary(self, vocab_size: int) -> TensorSlice:
        """Return the rank's rows of the embedding and of the head, split evenly; the last ranks may have fewer."""
        each = self.num_vocabulary_rows(vocab_size)
        start = min(self.rank * each, vocab_size)
        return TensorSlice(0, start, min(start + each, vocab_size))

    def num_vocabulary_rows(self, vocab_size: int) -> int:
        """Return the largest number of vocabulary rows of a rank."""
        return -(-vocab_size // self.num_ranks)

    def _part_of_heads(self, last: str, attention: AttentionPlan) -> TensorSlice | None:
        """Return the rank's rows of keys, values or norms. With fewer heads than ranks, several ranks have the same."""
        if last in {"q_norm", "k_norm"} and attention.head_norm == "head":
            return None
        if last == "q_norm":
            return self._part(0, attention.num_heads * attention.head_dim)
        num_own = max(1, attention.num_kv_heads // self.num_ranks)
        first = self.rank * attention.num_kv_heads // self.num_ranks
        return TensorSlice(0, first * attention.head_dim, (first + num_own) * attention.head_dim)

    def _part(self, axis: int, count: int) -> TensorSlice:
        each = count // self.num_ranks
        return TensorSlice(axis, self.rank * each, (self.rank + 1) * each)


WHOLE = Shard()


def parallel_unsupported_reason(config: Any, num_ranks: int) -> str | None:
    """Return why a model cannot be sharded to `num_ranks` ranks, or None if it can."""
    reason = decoder_unsupported_reason(config)
    if reason is not None:
        return f"engine.tensor_parallel needs the torch decoder: {reason}"
    plan = plan_of(config)
    if num_ranks > plan.vocab_size:
        return f"engine.tensor_parallel {num_ranks} exceeds its vocabulary size, {plan.vocab_size}"
    if any(layer.heads.head_norm == "whole" for layer in plan.layers):
        return "engine.tensor_parallel does not support norms over all heads"
    for layer in plan.layers:
        for name, count in (("attention heads", layer.heads.num_heads), *_widths(layer)):
            if count % num_ranks:
                return f"engine.tensor_parallel {num_ranks} doesn't divide its {count} {name}"
        num_keys = layer.heads.num_kv_heads
        if num_keys % num_ranks and num_ranks % num_keys:
            return f"engine.tensor_parallel {num_ranks} neither divides nor is a multiple of its {num_keys} key heads"
    return None


def _widths(layer: LayerPlan) -> Iterator[tuple[str, int]]:
    yield "inner units", layer.feed_forward.width
    if isinstance(layer.feed_forward, ExpertsPlan):
        yield "inner units of the shared expert", layer.feed_forward.shared_width


def num_rank_parameters(config: Any, num_ranks: int) -> int:
    """Return the number of weights of the largest rank, for a model that can be sharded."""
    plan, shard = plan_of(config), Shard(0, num_ranks)
    num_parameters = 0
    for name, shape in all_tensor_shapes(plan).items():
        part = shard.part_of(name, shape, plan)
        num_parameters += math.prod(shape) if part is None else math.prod(sliced_shape(shape, part))
    return num_parameters


def sliced_shape(shape: Shape, part: TensorSlice) -> Shape:
    """Return the shape of a slice of a tensor."""
    return tuple(part.end - part.start if axis == part.axis else size for axis, size in enumerate(shape))
