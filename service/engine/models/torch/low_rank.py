"""The contribution of adapters to the products of a step, one adapter's rows after another's."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from service.engine.core.batch import Batch
from service.engine.device.transfer import to_device


@dataclass(frozen=True, slots=True)
class LowRankSum:
    """x · down · up, added to a product of x."""

    down: Tensor  # [inputs, rank]
    up: Tensor  # [rank, outputs]


class LowRankTable:
    """The adapters that a backend holds, by their places, and what each adds, by the product."""

    def __init__(self) -> None:
        self._held: dict[int, Mapping[Hashable, LowRankSum]] = {}

    def put(self, place: int, sums: Mapping[Hashable, LowRankSum]) -> None:
        """Hold an adapter at a place that is free."""
        self._held[place] = sums

    def drop(self, place: int) -> None:
        """Forget the adapter of a place."""
        del self._held[place]

    def for_batch(self, batch: Batch, device: torch.device) -> AddedSums:
        """What is added in one step."""
        return AddedSums([(self._held[place], to_device(rows, device)) for place, rows in batch.adapter_rows.items()])


class AddedSums:
    """What adapters add in one step; nothing where no sequence has one."""

    def __init__(self, groups: list[tuple[Mapping[Hashable, LowRankSum], Tensor]]) -> None:
        """Each adapter's sums, and the rows [rows of it] that they are for."""
        self._groups = groups

    def add(self, product: Hashable, x: Tensor, y: Tensor) -> None:
        """Add to y [tokens, outputs], in place, what adapters make of x [tokens, inputs]."""
        for sums, rows in self._groups:
            if (each := sums.get(product)) is not None:
                y.index_add_(0, rows, x.index_select(0, rows).mm(each.down).mm(each.up))


NOTHING_ADDED = AddedSums([])
