"""The backend of a model that several processes share: the leader is rank 0 and sends every call to the others."""

from __future__ import annotations

import tempfile
from collections import abc
from pathlib import Path

import torch.distributed as dist
from torch import Tensor

from service.engine.core.batch import Batch
from service.engine.link.engine_spec import EngineSpec
from service.engine.models.checkpoint.adapter_files import Adapter
from service.engine.models.model_spec import ModelSpec
from service.engine.models.parallel.rank import Allocate, Join, PrepareThread, join, load_share, rank_device
from service.engine.models.parallel.rank_processes import RankDied, RankProcesses
from service.engine.models.torch.decoder import Decoder
from service.engine.models.torch.share import Share
from service.generation.errors import ModelLoadError


class ParallelBackend:
    """A Backend of which this process computes one share. What it is told, all ranks are told."""

    def __init__(self, own: Decoder, others: RankProcesses, num_caches: int) -> None:
        """`num_caches` is how many ranks' shares of the cache are in the memory that the cache is sized by."""
        self._own = own
        self._others = others
        self._num_caches = num_caches

    def bytes_per_block(self, block_size: int) -> int:
        """Bytes of cache for `block_size` tokens: all ranks' on a host, whose memory they share, else one device's."""
        return self._own.bytes_per_block(block_size) * self._num_caches

    def allocate(self, num_blocks: int, block_size: int) -> None:
        """Make every rank's part of the cache."""
        self._others.send(Allocate(num_blocks, block_size))
        self._own.allocate(num_blocks, block_size)

    def put_adapter(self, place: int, adapter: Adapter) -> None:
        """Raises AdapterRefused: it has none."""
        raise adapter.refuse(f"place {place}", "a model that is shared out to processes takes no adapters")

    def drop_adapter(self, place: int) -> None:
        """Raises KeyError: it has none."""
        raise KeyError(place)

    def prepare_thread(self, num_threads: int | None) -> None:
        """Set what the computing thread of each rank needs; `num_threads` is of each."""
        self._others.send(PrepareThread(num_threads))
        self._own.prepare_thread(num_threads)

    def forward(self, batch: Batch) -> Tensor:
        """Have all ranks compute the batch; the logits, float32 [output rows, vocabulary]. Raises RankDied."""
        try:
            self._others.send(batch)
            return self._own.forward(batch)
        except (RuntimeError, OSError) as error:
            verdict = self._others.verdict(error)
            raise verdict from (None if verdict is error else error)

    def watch(self, on_death: abc.Callable[[str], None]) -> None:
        """Call `on_death` with the reason when a rank has ended, whether or not a step runs."""
        self._others.watch(on_death)

    def close(self) -> None:
        """End the other ranks; returns when they have ended."""
        self._others.close()
        dist.destroy_process_group()


def load_parallel(spec: ModelSpec) -> ParallelBackend:
    """Start and load all ranks of a model. Raises ModelLoadError, also if a rank ends while it loads."""
    folder, others = spec.checkpoint.folder, []
    for rank in range(1, spec.tensor_parallel):
        arguments = {
            "folder": folder,
            "dtype": spec.dtype,
            "kv_cache_dtype": spec.kv_cache_dtype,
            "device": spec.device,
            "max_positions": spec.max_positions,
            "share": Share(rank, spec.tensor_parallel),
        }
        others.append(EngineSpec("service.engine.models.parallel.rank:make_rank", arguments))
    processes, share = RankProcesses(others), Share(0, spec.tensor_parallel)
    try:
        own = load_share(spec, share)
        processes.until_ready()
        with tempfile.TemporaryDirectory(prefix="sluice-ranks-") as meeting:  # nobody else's to read or write
            place = Path(meeting) / "ranks"
            processes.send(Join(place))
            join(share, rank_device(spec.device, 0), place)
    except (RankDied, OSError) as error:
        processes.close()
        raise ModelLoadError(f"{folder}: {error}") from error
    except BaseException:
        processes.close()
        raise
    return ParallelBackend(own, processes, spec.tensor_parallel if spec.device == "cpu" else 1)
