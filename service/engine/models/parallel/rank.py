"""A rank other than the leader: it holds a share of the model, and follows the leader's commands in order.

It runs in a worker process of its own, whose parent is the leader's.
"""

from __future__ import annotations

import os
import time
from collections import deque
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import FileStore

from service.engine.core.batch import Batch
from service.engine.link.engine_spec import BuiltCore
from service.engine.messages import Before, Command, Emit, RankCommand, Report
from service.engine.models.checkpoint.model_config import read_model_config
from service.engine.models.checkpoint.text_part import open_checkpoint
from service.engine.models.model_spec import ModelSpec
from service.engine.models.torch.decoder import Decoder
from service.engine.models.torch.load_decoder import load_decoder
from service.engine.models.torch.share import Share

_LOOPBACK = "lo"
_TIMEOUT = timedelta(seconds=120)  # for the others to come to the same layer
_GRACE_S = 2.0  # for the leader to end this process, where another rank's end is what broke a layer


@dataclass(frozen=True, slots=True)
class Join:
    """An order: meet the other ranks by a file that all of them see."""

    meeting: Path


@dataclass(frozen=True, slots=True)
class Allocate:
    """An order: `Backend.allocate`."""

    num_blocks: int
    block_size: int


@dataclass(frozen=True, slots=True)
class PrepareThread:
    """An order: `Backend.prepare_thread`."""

    num_threads: int | None


def rank_device(device: str, rank: int) -> str:
    """The CPU, or each rank's own accelerator."""
    return device if device == "cpu" else f"{device}:{rank}"


def join(share: Share, device: str, meeting: Path) -> None:
    """Make this process's group; returns when all ranks have. They talk over the loopback interface only."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", _LOOPBACK)
    os.environ.setdefault("NCCL_SOCKET_IFNAME", _LOOPBACK)
    target = torch.device(device)
    if target.type == "cuda":
        torch.cuda.set_device(target)
    dist.init_process_group(
        "gloo" if target.type == "cpu" else "nccl",
        store=FileStore(str(meeting), share.num_ranks),
        rank=share.rank,
        world_size=share.num_ranks,
        timeout=_TIMEOUT,
    )
    dist.barrier()


class RankCore:
    """A `loop.Core` that takes orders. A layer that fails ends it."""

    def __init__(self, decoder: Decoder, share: Share, device: str) -> None:
        self._decoder = decoder
        self._share = share
        self._device = device
        self._orders: deque[object] = deque()

    @property
    def has_work(self) -> bool:
        """Whether an order waits."""
        return bool(self._orders)

    @property
    def output_interval_s(self) -> float:
        """0: there are no outputs."""
        return 0.0

    def open(self, emit: Emit) -> None:
        """Nothing is done beside the orders."""

    def receive(self, command: Command) -> None:
        """Keep an order."""
        if isinstance(command, RankCommand):
            self._orders.append(command.work)

    def step(self, before: Before | None = None) -> bool:  # noqa: ARG002  nothing is kept
        """Follow the oldest order; False, since nobody waits for a word of it."""
        match self._orders.popleft():
            case Join(meeting):
                join(self._share, rank_device(self._device, self._share.rank), meeting)
            case Allocate(num_blocks, block_size):
                self._decoder.allocate(num_blocks, block_size)
            case PrepareThread(num_threads):
                self._decoder.prepare_thread(num_threads)
            case Batch() as batch:
                self._forward(batch)
            case work:
                raise TypeError(f"no order: {work!r}")
        return False

    def report(self, *, only_pressing: bool = False) -> Report:  # noqa: ARG002  there is nothing to leave out
        """Nothing but that it lives."""
        return Report()

    def close(self) -> None:
        """Nothing runs beside the orders."""

    def _forward(self, batch: Batch) -> None:
        try:
            self._decoder.forward(batch)
        except RuntimeError:
            # Whichever rank failed first is the one to tell: the leader ends this process when it knows of another.
            time.sleep(_GRACE_S)
            raise


def make_rank(  # noqa: PLR0917
    folder: Path, dtype: str, kv_cache_dtype: str, device: str, max_positions: int, share: Share
) -> BuiltCore:
    """Load a share of the model of `folder`, as the leader does. Raises ModelLoadError."""
    config = read_model_config(folder)
    checkpoint = open_checkpoint(folder, config)
    spec = ModelSpec(config, checkpoint, dtype, device, max_positions, kv_cache_dtype=kv_cache_dtype)
    return BuiltCore(RankCore(load_share(spec, share), share, device), None)


def load_share(spec: ModelSpec, share: Share) -> Decoder:
    """The part of `share.rank`, on its own device. Raises ModelLoadError."""
    device = torch.device(rank_device(spec.device, share.rank))
    dtype, cache_dtype = getattr(torch, spec.dtype), getattr(torch, spec.cache_dtype)
    return load_decoder(
        spec.config, spec.checkpoint, dtype, device, spec.max_positions, share=share, cache_dtype=cache_dtype
    )
