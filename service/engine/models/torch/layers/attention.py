"""The projections of a layer's attention to queries, keys and values, with their norms and rotation."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from service.engine.models.attention.scores import Scores
from service.engine.models.plans.plan import AttentionPlan
from service.engine.models.torch.layers.linear import Linear
from service.engine.models.torch.layers.low_rank import AddedSums
from service.engine.models.torch.layers.norm import AllHeadsNorm, EachHeadNorm
from service.engine.models.torch.layers.ops import rotate_


@dataclass(frozen=True, slots=True)
class Visibility:
    """How the queries of a layer see keys; layers with equal ones share the preparations of a step."""

    scores: Scores
    window: int | None  # tokens that a token sees, including itself


@dataclass(frozen=True, slots=True)
class Attention:
    """The weights of a layer's attention. Rotary pairs of queries and keys are adjacent (`ops.interleave_pairs`)."""

    plan: AttentionPlan  # of this rank
    qkv: Linear  # hidden → (heads + 2 * kv heads) * head dim
    output: Linear
    head_norm: EachHeadNorm | AllHeadsNorm | None
    sinks: Tensor | None  # [heads]
    visibility: Visibility

    @property
    def num_heads(self) -> int:
        """The number of query heads, which come first among the projected heads."""
        return self.plan.num_heads

    def project(self, x: Tensor, added: AddedSums, layer: int) -> Tensor:
        """Return queries, keys and values [tokens, heads + 2 * kv heads, head dim] of x [tokens, hidden]."""
        plan = self.plan
        projected = self.qkv(x)
        added.add((layer, "qkv"), x, projected)
        if plan.clip:
            projected.clamp_(-plan.clip, plan.clip)
        return projected.view(len(x), -1, plan.head_dim)

    def turn_(self, heads: Tensor, rotation: Tensor | None) -> None:
        """Normalize and rotate the queries and keys of projected heads in place.

        `rotation` has the complex factors of each token's rotary pairs; None: queries and keys are not rotated.
        """
        plan = self.plan
        turned = heads[:, : plan.num_heads + plan.num_kv_heads]
        if self.head_norm is not None and not plan.norms_rotated:
            self.head_norm.apply_(turned)
        if rotation is not None:
            rotate_(turned[..., : 2 * rotation.shape[-1]], rotation)
        if self.head_norm is not None and plan.norms_rotated:
            self.head_norm.apply_(turned)
