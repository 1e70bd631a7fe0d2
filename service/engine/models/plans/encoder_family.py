"""A family of encoders, with the head of its cross-encoders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from service.engine.models.checkpoint.encoders.sentence_files import Pooling
from service.engine.models.plans.family import Family, attention_of
from service.engine.models.plans.plan import DecoderPlan, DensePlan, LayerPlan


@dataclass(frozen=True, slots=True)
class HeadNorm:
    """A layer norm of a head, by its module's name in the checkpoint."""

    module: str
    epsilon: float
    has_bias: bool


@dataclass(frozen=True, slots=True)
class HeadLayer:
    """A linear layer of a head, by its module's name in the checkpoint, with its activation."""

    module: str
    activation: str = "Identity"  # the name of torch's class
    has_bias: bool = True
    norm: HeadNorm | None = None  # after the activation


@dataclass(frozen=True, slots=True)
class Head:
    """The part of a cross-encoder that computes a score from the states of a pair."""

    pooling: Pooling
    layers: tuple[HeadLayer, ...]  # the last one has one output


@dataclass(frozen=True, slots=True)
class EncoderFamily:
    """A family whose names of tensors have the prefix that a checkpoint with a head has, and that head.

    `head` raises PlanUnsupportedError.
    """

    family: Family
    head: Callable[[Any], Head]


def post_norm_layer(config: Any, feed_forward: DensePlan, **options: Any) -> LayerPlan:
    """Return a layer like BERT's, whose norms are those of the sums of the residual and a part's results.

    `options` replace or complement those of its attention.
    """
    usual = {"rotary": -1, "has_qkv_bias": True, "has_output_bias": True, "is_causal": False}
    attention = attention_of(config, **usual | options)
    return LayerPlan(
        attention=attention,
        feed_forward=feed_forward,
        has_attention_norm=False,
        has_mlp_norm=False,
        has_attention_sum_norm=True,
        has_mlp_sum_norm=True,
    )


def encoder_of(config: Any, layers: list[LayerPlan], **options: Any) -> DecoderPlan:
    """Return an encoder with layer norms from the usual fields, and `options` that replace or complement them."""
    usual: dict[str, Any] = {
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "is_tied": False,
        "rotary": (),
        "layers": tuple(layers),
        "norm_kind": "layer",
        "has_norm_bias": True,
        "has_head": False,
        "has_final_norm": False,
        "has_embedding_norm": True,
    }
    return DecoderPlan(**usual | options)
