"""The backend of a sharded model. The leader is rank 0 and forwards each call to the other ranks."""

from __future__ import annotations

import tempfile
from collections import abc
from pathlib import Path

import torch.distributed as dist
from torch import Tensor

from service.engine.core.batch import Batch
from service.engine.link.engine_spec import EngineSpec
from service.engine.models.checkpoint.adapter_files import Adapter
from service.engine.models.interface.model_spec import ModelSpec
from service.engine.models.parallel.rank import Allocate, Join, PrepareThread, join, load_shard, rank_device
from service.engine.models.parallel.rank_processes import RankDied, RankProcesses
from service.engine.models.torch.decoder import Decoder
from service.engine.models.torch.shard import Shard
from service.generation.errors import ModelLoadError


class ParallelBackend:
    """A Backend of which this process computes one shard. It forwards each call to all other ranks."""

    def __init__(self, own: Decoder, others: RankProcesses, num_caches: int) -> None:
        """`num_caches` is the number of ranks whose caches share the memory for which the cache is sized."""
        self._own = own
        self._others = others
        self._num_caches = num_caches

    def bytes_per_block(self, block_size: int) -> int:
        """Return the cache bytes for `block_size` tokens: of all ranks on a CPU, of one rank on devices."""
        return self._own.bytes_per_block(block_size) * self._num_caches

    def allocate(self, num_blocks: int, block_size: int) -> None:
        """Allocate the cache of each rank."""
        self._others.send(Allocate(num_blocks, block_size))
        self._own.allocate(num_blocks, block_size)

    def put_adapter(self, slot: int, adapter: Adapter) -> None:
        """Raise AdapterRejected, because adapters are not supported."""
        raise adapter.rejection(f"slot {slot}", "adapters are not supported with engine.tensor_parallel")

    def drop_adapter(self, slot: int) -> None:
        """Raise KeyError, because adapters are not supported."""
        raise KeyError(slot)

    def prepare_thread(self, num_threads: int | None) -> None:
        """Configure the thread of each rank to compute with `num_threads`."""
        self._others.send(PrepareThread(num_threads))
        self._own.prepare_thread(num_threads)

    def forward(self, batch: Batch) -> Tensor:
        """Compute the batch on all ranks, and return the logits, float32 [output rows, vocabulary]. Raise RankDied."""
        try:
            self._others.send(batch)
            return self._own.forward(batch)
        except (RuntimeError, OSError) as error:
            cause = self._others.cause_of(error)
            raise cause from (None if cause is error else error)

    def watch(self, on_death: abc.Callable[[str], None]) -> None:
        """Call `on_death` with the reason when a rank has ended, even if no step runs."""
        self._others.watch(on_death)

    def close(self) -> None:
        """End the other ranks, and return when they have ended."""
        self._others.close()
        dist.destroy_process_group()


def load_parallel(spec: ModelSpec) -> ParallelBackend:
    """Start and load all ranks of a model. Raise ModelLoadError if a rank cannot load or ends during the load."""
    folder, others = spec.checkpoint.folder, []
    for rank in range(1, spec.tensor_parallel):
        arguments = {
            "folder": folder,
            "dtype": spec.dtype,
            "kv_cache_dtype": spec.kv_cache_dtype,
            "device": spec.device,
            "max_positions": spec.max_positions,
            "shard": Shard(rank, spec.tensor_parallel),
        }
        others.append(EngineSpec("service.engine.models.parallel.rank:make_rank", arguments))
    processes, shard = RankProcesses(others), Shard(0, spec.tensor_parallel)
    try:
        own = load_shard(spec, shard)
        processes.until_ready()
        with tempfile.TemporaryDirectory(prefix="sluice-ranks-") as directory:  # readable by this user only
            rendezvous = Path(directory) / "ranks"
            processes.send(Join(rendezvous))
            join(shard, rank_device(spec.device, 0), rendezvous)
    except (RankDied, OSError) as error:
        processes.close()
        raise ModelLoadError(f"{folder}: {error}") from error
    except BaseException:
        processes.close()
        raise
    return ParallelBackend(own, processes, spec.tensor_parallel if spec.device == "cpu" else 1)
