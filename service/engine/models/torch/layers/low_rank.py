"""The contribution of adapters to the linear layers of a step, computed adapter by adapter."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from service.engine.core.batch import Batch
from service.engine.device.transfer import to_device


@dataclass(frozen=True, slots=True)
class LowRankSum:
    """The low-rank term x · down · up, which is added to a linear layer's output for x."""

    down: Tensor  # [inputs, rank]
    up: Tensor  # [rank, outputs]


class LowRankTable:
    """The loaded adapters of a backend: for each slot, the low-rank sums by linear layer."""

    def __init__(self) -> None:
        self._held: dict[int, Mapping[Hashable, LowRankSum]] = {}

    def put(self, slot: int, sums: Mapping[Hashable, LowRankSum]) -> None:
        """Store an adapter in a free slot."""
        self._held[slot] = sums

    def drop(self, slot: int) -> None:
        """Remove the adapter of a slot."""
        del self._held[slot]

    def for_batch(self, batch: Batch, device: torch.device) -> AddedSums:
        """Return the low-rank sums of one step."""
        return AddedSums([(self._held[slot], to_device(rows, device)) for slot, rows in batch.adapter_rows.items()])


class AddedSums:
    """The low-rank sums of one step; empty if no sequence has an adapter."""

    def __init__(self, groups: list[tuple[Mapping[Hashable, LowRankSum], Tensor]]) -> None:
        """`groups` has each adapter's sums and the indices of its rows."""
        self._groups = groups

    def add(self, product: Hashable, x: Tensor, y: Tensor) -> None:
        """Add the adapters' terms for x [tokens, inputs] to y [tokens, outputs], in place."""
        for sums, rows in self._groups:
            if (each := sums.get(product)) is not None:
                y.index_add_(0, rows, x.index_select(0, rows).mm(each.down).mm(each.up))


NOTHING_ADDED = AddedSums([])
