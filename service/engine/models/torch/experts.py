"""A feed-forward part of experts, of which each token chooses some by a router."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor
from torch.nn.functional import linear

from service.engine.models.plans.plan import ExpertsPlan, Scores
from service.engine.models.torch.activation import Activation
from service.engine.models.torch.linear import Linear
from service.engine.models.torch.low_rank import AddedSums

_SCORES: Final[dict[Scores, Callable[[Tensor], Tensor]]] = {
    "softmax": lambda logits: logits.softmax(-1),
    "sigmoid": torch.sigmoid,
    "chosen_softmax": lambda logits: logits,
}


@dataclass(frozen=True, slots=True)
class Router:
    """Chooses each token's experts, in float32."""

    plan: ExpertsPlan
    weight: Tensor  # float32 [experts, hidden]
    bias: Tensor | None
    correction: Tensor | None  # [experts], added to the scores for the choice only

    def choose(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the experts and their weights, [tokens, chosen] each, for x [tokens, hidden]."""
        plan = self.plan
        logits = linear(x.float(), self.weight, self.bias)
        scores = _SCORES[plan.scores](logits)
        values = scores if self.correction is None else scores + self.correction
        if plan.num_chosen_groups < plan.num_groups:
            values = self._of_best_groups(values)
        chosen = values.topk(plan.num_chosen, dim=-1).indices
        weights = scores.gather(-1, chosen)
        if plan.scores == "chosen_softmax":
            weights = weights.softmax(-1)
        if plan.is_renormalized:
            weights = weights / (weights.sum(-1, keepdim=True) + plan.sum_addend).clamp_(min=plan.least_sum)
        return chosen, weights * plan.scale

    def _of_best_groups(self, values: Tensor) -> Tensor:
        """Return the values with those of experts in other than the best groups replaced by minus infinity."""
        plan = self.plan
        groups = values.view(len(values), plan.num_groups, -1)
        scores = groups.topk(2, dim=-1).values.sum(-1) if plan.adds_two else groups.amax(-1)
        best = scores.topk(plan.num_chosen_groups, dim=-1).indices
        is_other = torch.ones_like(scores, dtype=torch.bool).scatter_(-1, best, value=False)
        return groups.masked_fill(is_other.unsqueeze(-1), -torch.inf).flatten(1)


@dataclass(frozen=True, slots=True)
class Expert:
    """The weights of one expert. Gate and up are fused."""

    gate_up: Linear
    down: Linear


@dataclass(frozen=True, slots=True)
class Experts:
    """The experts of a layer, and the shared expert with its gate [1, hidden], if there are any.

    An expert's weights are read only if a token has chosen it. Adapters don't change experts.
    """

    router: Router
    experts: tuple[Expert, ...]
    activation: Activation
    shared: Expert | None
    shared_gate: Tensor | None

    def __call__(self, x: Tensor, added: AddedSums, layer: int) -> Tensor:
        """Return the part's result for x [tokens, hidden]."""
        del added, layer
        chosen, weights = self.router.choose(x)
        result = torch.zeros_like(x)
        for number in torch.unique(chosen).tolist():
            rows, nth = (chosen == number).nonzero(as_tuple=True)
            own = self._compute(self.experts[number], x.index_select(0, rows))
            result.index_add_(0, rows, own * weights[rows, nth].unsqueeze(-1).to(x.dtype))
        if self.shared is not None:
            own = self._compute(self.shared, x)
            if self.shared_gate is not None:
                own = own * linear(x, self.shared_gate).sigmoid()
            result += own
        return result

    def add_to(self, residual: Tensor, x: Tensor, added: AddedSums, layer: int) -> Tensor:
        """Return `residual` plus the part's result for x [tokens, hidden]."""
        return residual + self(x, added, layer)

    def _compute(self, expert: Expert, x: Tensor) -> Tensor:
        gate, up = expert.gate_up(x).chunk(2, dim=-1)
        plan = self.router.plan
        if not plan.swiglu_limit:
            return expert.down(self.activation(gate) * up)
        low = gate.clamp(max=plan.swiglu_limit)
        middle = up.clamp(-plan.swiglu_limit, plan.swiglu_limit)
        return expert.down((middle + 1) * (low * (low * plan.swiglu_alpha).sigmoid()))
