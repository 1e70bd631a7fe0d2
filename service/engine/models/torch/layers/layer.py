"""A layer of a plan: how the results of its parts, and their norms, are added to the residual."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from service.engine.models.torch.layers.attention import Attention
from service.engine.models.torch.layers.experts import Experts
from service.engine.models.torch.layers.feed_forward import Dense
from service.engine.models.torch.layers.low_rank import AddedSums
from service.engine.models.torch.layers.norm import Norm


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A layer's parts and norms, as its plan says. A norm that the plan lacks is None."""

    index: int
    attention: Attention
    feed_forward: Dense | Experts
    attention_norm: Norm | None
    attention_output_norm: Norm | None
    mlp_norm: Norm | None
    mlp_output_norm: Norm | None
    is_parallel: bool
    residual_multiplier: float

    def attention_input(self, hidden: Tensor) -> Tensor:
        """Return what attention reads of `hidden` [tokens, hidden]."""
        return hidden if self.attention_norm is None else self.attention_norm(hidden)

    def add_parts(self, hidden: Tensor, normed: Tensor, attended: Tensor, added: AddedSums) -> Tensor:
        """Return `hidden` plus the results of attention and of the feed-forward part.

        `normed` is attention's input, and `attended` its result before the output projection.
        """
        if self.is_parallel:
            branch = self._project(attended, added)
            read = normed if self.mlp_norm is None else self.mlp_norm(hidden)
            both = self.feed_forward.add_to(branch, read, added, self.index)
            return hidden + both.mul_(self.residual_multiplier)
        if self.residual_multiplier == 1 and self.attention_output_norm is None:
            hidden = self.attention.output.add_to(hidden, attended)
            added.add((self.index, "attention_output"), attended, hidden)
        else:
            hidden = self._add(hidden, self._project(attended, added), self.attention_output_norm)
        read = hidden if self.mlp_norm is None else self.mlp_norm(hidden)
        if self.residual_multiplier == 1 and self.mlp_output_norm is None:
            return self.feed_forward.add_to(hidden, read, added, self.index)
        return self._add(hidden, self.feed_forward(read, added, self.index), self.mlp_output_norm)

    def _project(self, attended: Tensor, added: AddedSums) -> Tensor:
        branch = self.attention.output(attended)
        added.add((self.index, "attention_output"), attended, branch)
        return branch

    def _add(self, hidden: Tensor, branch: Tensor, norm: Norm | None) -> Tensor:
        result = branch if norm is None else norm(branch)
        return hidden + result.mul_(self.residual_multiplier)
