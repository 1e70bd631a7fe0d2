"""A rank other than the leader. It holds a shard of the model and runs the leader's commands in order.

It runs in a worker process whose parent is the leader's process.
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
from service.engine.interface.messages import BeforeStep, Command, Emit, RankCommand, Report
from service.engine.link.engine_spec import BuiltCore
from service.engine.models.checkpoint.model_config import read_model_config
from service.engine.models.checkpoint.text_part import open_checkpoint
from service.engine.models.interface.model_spec import ModelSpec
from service.engine.models.torch.decoder import Decoder
from service.engine.models.torch.load_decoder import load_decoder
from service.engine.models.torch.shard import Shard

_LOOPBACK = "lo"
_TIMEOUT = timedelta(seconds=120)  # the time that other ranks have to reach the same layer
_GRACE_S = 2.0  # the time that the leader has to end this process, if the death of another rank broke the layer


@dataclass(frozen=True, slots=True)
class Join:
    """The command to join the process group, by a file that all ranks can access."""

    rendezvous: Path


@dataclass(frozen=True, slots=True)
class Allocate:
    """The command to call `Backend.allocate`."""

    num_blocks: int
    block_size: int


@dataclass(frozen=True, slots=True)
class PrepareThread:
    """The command to call `Backend.prepare_thread`."""

    num_threads: int | None


def rank_device(device: str, rank: int) -> str:
    """Return the CPU, or the rank's own accelerator."""
    return device if device == "cpu" else f"{device}:{rank}"


def join(shard: Shard, device: str, rendezvous: Path) -> None:
    """Join the process group, and return when all ranks have joined. They use the loopback interface only."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", _LOOPBACK)
    os.environ.setdefault("NCCL_SOCKET_IFNAME", _LOOPBACK)
    target = torch.device(device)
    if target.type == "cuda":
        torch.cuda.set_device(target)
    dist.init_process_group(
        "gloo" if target.type == "cpu" else "nccl",
        store=FileStore(str(rendezvous), shard.num_ranks),
        rank=shard.rank,
        world_size=shard.num_ranks,
        timeout=_TIMEOUT,
    )
    dist.barrier()


class RankCore:
    """A `loop.Core` that runs the leader's commands. A layer that fails ends it."""

    def __init__(self, decoder: Decoder, shard: Shard, device: str) -> None:
        self._decoder = decoder
        self._shard = shard
        self._device = device
        self._commands: deque[object] = deque()

    @property
    def has_work(self) -> bool:
        """True if a command is queued."""
        return bool(self._commands)

    @property
    def output_interval_s(self) -> float:
        """Always 0, because a rank has no outputs."""
        return 0.0

    def open(self, emit: Emit) -> None:
        """Do nothing, because a rank has no work outside of steps."""

    def receive(self, command: Command) -> None:
        """Enqueue a command."""
        if isinstance(command, RankCommand):
            self._commands.append(command.work)

    def step(self, before: BeforeStep | None = None) -> bool:  # noqa: ARG002  no output is held back
        """Run the oldest command. Return False, because a rank has no output to flush."""
        match self._commands.popleft():
            case Join(rendezvous):
                join(self._shard, rank_device(self._device, self._shard.rank), rendezvous)
            case Allocate(num_blocks, block_size):
                self._decoder.allocate(num_blocks, block_size)
            case PrepareThread(num_threads):
                self._decoder.prepare_thread(num_threads)
            case Batch() as batch:
                self._forward(batch)
            case work:
                raise TypeError(f"unknown command: {work!r}")
        return False

    def report(self, *, only_urgent: bool = False) -> Report:  # noqa: ARG002  a rank has no output
        """Return an empty report, which serves as the heartbeat."""
        return Report()

    def close(self) -> None:
        """Do nothing, because a rank has no work outside of steps."""

    def _forward(self, batch: Batch) -> None:
        """Compute a batch. After an error wait, so that the rank that failed first is reported."""
        try:
            self._decoder.forward(batch)
        except RuntimeError:
            # The rank that failed first should be reported: if it was another one, the leader ends this process.
            time.sleep(_GRACE_S)
            raise


def make_rank(  # noqa: PLR0917
    folder: Path, dtype: str, kv_cache_dtype: str, device: str, max_positions: int, shard: Shard
) -> BuiltCore:
    """Load a shard of the model of `folder`. Raise ModelLoadError if that fails."""
    config = read_model_config(folder)
    checkpoint = open_checkpoint(folder, config)
    spec = ModelSpec(config, checkpoint, dtype, device, max_positions, kv_cache_dtype=kv_cache_dtype)
    return BuiltCore(RankCore(load_shard(spec, shard), shard, device), None)


def load_shard(spec: ModelSpec, shard: Shard) -> Decoder:
    """Load the shard of `shard.rank` on its device. Raise ModelLoadError if that fails."""
    device = torch.device(rank_device(spec.device, shard.rank))
    dtype, cache_dtype = getattr(torch, spec.dtype), getattr(torch, spec.cache_dtype)
    return load_decoder(
        spec.config, spec.checkpoint, dtype, device, spec.max_positions, shard=shard, cache_dtype=cache_dtype
    )
