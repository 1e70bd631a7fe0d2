"""The optimisers: Muon for the matrices inside the layers, AdamW for embedding, head and gains.

The caller implements the schedule and passes each step its share of the full learning rates.
"""

from __future__ import annotations

from typing import Any

import torch

from demo.muon import Muon
from demo.network import Network


class Optimisers:
    """The two optimisers with a common step."""

    def __init__(self, network: Network, *, muon_lr: float, adam_lr: float, dtype: torch.dtype = torch.float32) -> None:
        inside = [p for name, p in network.named_parameters() if "layers" in name and p.ndim == 2]
        tables = [network.model.embed_tokens.weight, network.lm_head.weight]
        gains = [p for p in network.parameters() if p.ndim == 1]
        self._parameters = list(network.parameters())
        self._muon = Muon(inside, lr=muon_lr, weight_decay=0.01, dtype=dtype)
        self._adam = torch.optim.AdamW([*tables, *gains], lr=adam_lr, betas=(0.9, 0.98), weight_decay=0.0, fused=True)
        self._full = {id(self._muon): muon_lr, id(self._adam): adam_lr}

    def step(self, share: float) -> float:
        """Clip, update with `share` of the full learning rates and clear the gradients. Return the gradient's norm."""
        norm = torch.nn.utils.clip_grad_norm_(self._parameters, 1.0)
        for optimiser in (self._muon, self._adam):
            for group in optimiser.param_groups:
                group["lr"] = self._full[id(optimiser)] * share
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        return float(norm)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of both, to be saved with the weights."""
        return {"muon": self._muon.state_dict(), "adam": self._adam.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a `state_dict`."""
        self._muon.load_state_dict(state["muon"])
        self._adam.load_state_dict(state["adam"])
