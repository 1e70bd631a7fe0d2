"""Data-parallel training in several processes, each with its own part of every batch.

Each process has one thread. On shared cores this loses less to other programs than one process with several threads,
which waits for its slowest thread at every operation instead of once per step.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from torch import distributed, nn
from torch.multiprocessing.spawn import spawn

T = TypeVar("T")


@dataclass(frozen=True)
class WorkerGroup:
    """The worker processes of a training run, as one of them with the index `rank` sees them."""

    rank: int
    size: int

    def mean(self, value: float) -> float:
        """Return the mean of all workers' `value`."""
        if self.size == 1:
            return value
        shared = torch.tensor([value], dtype=torch.float64)
        distributed.all_reduce(shared)
        return shared.item() / self.size

    def average_gradients(self, network: nn.Module) -> None:
        """Replace each parameter's gradient by its mean over all workers."""
        if self.size == 1:
            return
        grads = [p.grad for p in network.parameters() if p.grad is not None]
        flat = torch.cat([grad.flatten() for grad in grads])
        distributed.all_reduce(flat)
        flat /= self.size
        for grad, mean in zip(grads, torch.split(flat, [grad.numel() for grad in grads]), strict=True):
            grad.copy_(mean.view_as(grad))


SINGLE = WorkerGroup(0, 1)


def run_workers(size: int, work: Callable[[WorkerGroup, T], None], task: T) -> None:
    """Run `work` in `size` new processes and wait. A failure in one ends them all and is raised here."""
    with tempfile.TemporaryDirectory() as folder:
        spawn(_join, (size, Path(folder) / "rendezvous", work, task), nprocs=size)  # type: ignore[no-untyped-call]


def _join(rank: int, size: int, rendezvous: Path, work: Callable[[WorkerGroup, T], None], task: T) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=size)
    try:
        work(WorkerGroup(rank, size), task)
    finally:
        distributed.destroy_process_group()
