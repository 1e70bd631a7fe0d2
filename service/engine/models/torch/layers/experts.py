"""A feed-forward part of experts, of which each token chooses some by a router."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from service.engine.models.attention.device_kernels import DeviceExperts
from service.engine.models.plans.plan import ExpertsPlan, Scores
from service.engine.models.torch.layers.activation import Inner
from service.engine.models.torch.layers.linear import Linear
from service.engine.models.torch.layers.low_rank import AddedSums

_SCORES: Final[dict[Scores, Callable[[Tensor], Tensor]]] = {
    "softmax": lambda logits: logits.softmax(-1),
    "sigmoid": torch.sigmoid,
    "chosen_softmax": lambda logits: logits,
}


@dataclass(frozen=True, slots=True)
class Router:
    """Chooses each token's experts, in float32."""

    plan: ExpertsPlan
    product: Linear  # hidden → experts
    correction: Tensor | None  # [experts], added to the scores for the choice only

    def choose(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the experts and their weights, [tokens, chosen] each, for x [tokens, hidden]."""
        plan = self.plan
        logits = self.product(x.float())
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
    """The weights of one expert. Gate and up are fused; `inner` makes of both what `down` reads."""

    gate_up: Linear
    down: Linear
    inner: Inner

    def __call__(self, x: Tensor) -> Tensor:
        """Return the expert's result for x [rows, hidden]."""
        return self.down(self.inner(self.gate_up(x)))


@dataclass(frozen=True, slots=True)
class ListedExperts:
    """Experts that are computed one after another. An expert's weights are read only if a token has chosen it."""

    experts: tuple[Expert, ...]

    def __call__(self, x: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
        """Return each token's weighted sum of its experts' results for x [tokens, hidden]."""
        result = torch.zeros_like(x)
        for number in torch.unique(chosen).tolist():
            rows, nth = (chosen == number).nonzero(as_tuple=True)
            own = self.experts[number](x.index_select(0, rows))
            result.index_add_(0, rows, own * weights[rows, nth].unsqueeze(-1).to(x.dtype))
        return result


@dataclass(frozen=True, slots=True)
class Experts:
    """The experts of a layer, and the shared expert with its gate, if there are any. Adapters don't change experts."""

    router: Router
    experts: ListedExperts | DeviceExperts
    shared: Expert | None
    shared_gate: Linear | None  # hidden → 1

    @property
    def waits(self) -> bool:
        """Whether what is computed depends on the step's numbers, which the host must wait for."""
        return isinstance(self.experts, ListedExperts)

    def __call__(self, x: Tensor, added: AddedSums, layer: int) -> Tensor:
        """Return the part's result for x [tokens, hidden]."""
        del added, layer
        result = self.experts(x, *self.router.choose(x))
        if self.shared is not None:
            own = self.shared(x)
            if self.shared_gate is not None:
                own = own * self.shared_gate(x).sigmoid()
            result += own
        return result

    def add_to(self, residual: Tensor, x: Tensor, added: AddedSums, layer: int) -> Tensor:
        """Return `residual` plus the part's result for x [tokens, hidden]."""
        return residual + self(x, added, layer)
