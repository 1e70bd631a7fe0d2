"""Adapters for transformers' models, applied by forward hooks on their linear layers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch
from torch import Tensor
from transformers.pytorch_utils import Conv1D

from service.engine.core.batch import Batch
from service.engine.models.checkpoint.adapter_files import Adapter
from service.engine.models.modules.paged_attention import Trial
from service.engine.models.torch.layers.low_rank import AddedSums, LowRankSum, LowRankTable

_NO_SUMS = AddedSums([])


class ModuleAdapters:
    """The adapters of one model. Call `begin` before the forward pass of a step."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._table = LowRankTable()
        self._hooked: set[str] = set()
        self._added = _NO_SUMS
        self._seen: dict[str, list[int]] | None = None  # during a trial, the number of rows of each call of a module

    def begin(self, batch: Batch) -> None:
        """Select the adapters of a batch for the next forward pass."""
        self._added = self._table.for_batch(batch, self._model.device)

    def put(self, slot: int, adapter: Adapter) -> None:
        """Store an adapter in a free slot. Raise AdapterRejected for an unsupported module."""
        found = {name: self._module(adapter, name) for name in adapter.modules}
        sums: dict[Hashable, LowRankSum] = {}
        for name, low_rank in adapter.modules.items():
            weight = found[name].weight
            own_shape = [low_rank.up.shape[0], low_rank.down.shape[1]]
            expected = [*reversed(weight.shape)] if isinstance(found[name], Conv1D) else [*weight.shape]
            if own_shape != expected:
                raise adapter.rejection(
                    name, f"its shape is {own_shape}, but the model's weight has the shape {expected}"
                )
            down, up = (
                torch.from_numpy(each).t().to(weight.device, self._model.dtype).contiguous()
                for each in (low_rank.down, low_rank.up)
            )
            sums[name] = LowRankSum(down, up)
        for name in adapter.modules.keys() - self._hooked:
            found[name].register_forward_hook(self._hook(name))
            self._hooked.add(name)
        self._check_rows(adapter)
        self._table.put(slot, sums)

    def drop(self, slot: int) -> None:
        """Remove the adapter of a slot."""
        self._table.drop(slot)

    def _module(self, adapter: Adapter, name: str) -> Any:
        """Return the linear layer that an adapter changes. Raise AdapterRejected if it is none."""
        try:
            module = self._model.get_submodule(name)
        except AttributeError:
            raise adapter.rejection(name, "the model has no such module") from None
        if not isinstance(module, torch.nn.Linear | Conv1D):
            raise adapter.rejection(name, f"it is a {type(module).__name__}; only linear layers are supported")
        return module

    def _hook(self, name: str) -> Any:
        """Return a forward hook that adds the adapters' sums or, during a trial, records the number of rows."""

        def add(_module: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            x = inputs[0].flatten(0, -2)
            if self._seen is not None:
                self._seen.setdefault(name, []).append(x.shape[0])
            else:
                self._added.add(name, x, output.view(-1, output.shape[-1]))

        return add

    @torch.inference_mode()
    def _check_rows(self, adapter: Adapter) -> None:
        """Raise AdapterRejected for modules that do not compute each token once, such as experts.

        The rows of such a module do not correspond to the rows of the batch.
        """
        num_tokens = 3
        tokens = torch.arange(num_tokens, device=self._model.device)[None]
        self._seen = {}
        try:
            self._model(input_ids=tokens, position_ids=tokens, use_cache=False, paged_step=Trial())
            for name in adapter.modules:
                if self._seen.get(name) != [num_tokens]:
                    raise adapter.rejection(name, "it does not compute each token exactly once, which adapters need")
        finally:
            self._seen = None
