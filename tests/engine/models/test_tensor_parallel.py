"""A model divided among several processes gives the same logits, and no process outlives another."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from service.engine.models.parallel.backend import ParallelBackend
from service.engine.models.parallel.rank import load_shard
from service.engine.models.selection.backends import choose_backend
from service.engine.models.torch.shard import Shard, num_rank_parameters, parallel_unsupported_reason
from service.generation.errors import ModelLoadError
from tests.e2e.stack import child_pids, is_running
from tests.engine.folders.tiny_models import BLOCK_SIZE, CONFIGS, LEAN, NUM_BLOCKS, Part, load, run, save, spec, tokens

TABLE = [31, 2, 17, 5, 30, 9]
LENGTH = 45


def children() -> set[int]:
    """Return the running child processes of this process."""
    return {pid for pid in child_pids(os.getpid()) if is_running(pid)}


@contextmanager
def shared_out(folder: Path, num_ranks: int) -> Iterator[ParallelBackend]:
    """Run the folder's model on `num_ranks` ranks, of which this process is the first."""
    source = replace(spec(folder), tensor_parallel=num_ranks)
    backend: Any = choose_backend(source, "torch").load(source)
    try:
        backend.allocate(NUM_BLOCKS, BLOCK_SIZE)
        yield backend
    finally:
        backend.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "num_ranks"),
    [("llama-biases", 2), ("qwen3-tied", 2), ("llama-one-kv-head", 2), ("llama-head-dim", 4), ("mixtral", 2)],
)
def test_logits_equal_those_of_one_rank(name: str, num_ranks: int, tmp_path: Path) -> None:
    """Prefills, chunks and decodes are equal, with a vocabulary that can't be divided evenly."""
    save(name, tmp_path)
    alone = load(tmp_path)
    ids, other = tokens(LENGTH), tokens(20, seed=1)
    steps = [
        [Part(ids, 0, 30, TABLE)],
        [Part(ids, 30, 31, TABLE), Part(other, 0, 19, [20, 21, 22])],
        [Part(ids, 31, 32, TABLE), Part(other, 19, 20, [20, 21, 22])],
        [Part(ids, 32, LENGTH, TABLE)],
    ]
    before = children()
    with shared_out(tmp_path, num_ranks) as backend:
        for step in steps:
            for mine, expected in zip(run(backend, step), run(alone, step), strict=True):
                torch.testing.assert_close(mine, expected, atol=1e-4, rtol=0)
    assert children() <= before


@pytest.mark.slow
def test_a_rank_that_dies_is_named(tmp_path: Path) -> None:
    """The error names the rank during a step and without one, and the step raises the same error."""
    save("llama", tmp_path)
    reasons: list[str] = []
    ids = tokens(3)
    before = children()
    with shared_out(tmp_path, 2) as backend:
        run(backend, [Part(ids, 0, 2, [1])])
        backend.watch(reasons.append)
        (pid,) = children() - before
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(RuntimeError, match=r"rank 1 of 2 .* ended by SIGKILL"):
            run(backend, [Part(ids, 2, 3, [1])])
        assert reasons == ["rank 1 of 2 of tensor parallelism has ended: ended by SIGKILL"]


@pytest.mark.parametrize(
    ("name", "num_ranks", "reason"),
    [
        ("llama", 3, "engine.tensor_parallel 3 doesn't divide its 4 attention heads"),
        ("llama", 64, "engine.tensor_parallel 64 doesn't divide its 4 attention heads"),
        ("mixtral", 64, "engine.tensor_parallel 64 doesn't divide its 4 attention heads"),
        ("gpt2", 2, "needs the torch decoder: the model_type gpt2 has no layer plan"),
    ],
)
def test_what_cannot_be_shared_is_refused(name: str, num_ranks: int, reason: str, tmp_path: Path) -> None:
    """The error has the number or the architecture that prevents it."""
    save(name, tmp_path)
    with pytest.raises(ModelLoadError, match=reason):
        choose_backend(replace(spec(tmp_path), tensor_parallel=num_ranks))


def test_a_device_of_its_own_cannot_be_shared(tmp_path: Path) -> None:
    save("llama", tmp_path)
    with pytest.raises(ModelLoadError, match="the device must be cpu or cuda, not cuda:1"):
        choose_backend(replace(spec(tmp_path), tensor_parallel=2, device="cuda:1"))


@pytest.mark.parametrize("num_ranks", [1, 2, 4])
@pytest.mark.parametrize("name", LEAN)
def test_ranks_together_have_the_whole_model(name: str, num_ranks: int, tmp_path: Path) -> None:
    """Each rank reads only its own share of the file, with the reported number of weights."""
    save(name, tmp_path)
    config = CONFIGS[name]()
    assert parallel_unsupported_reason(config, num_ranks) is None
    read: list[int] = []
    for rank in range(num_ranks):
        source = spec(tmp_path)
        source.checkpoint.on_read = read.append
        load_shard(source, Shard(rank, num_ranks))
    num_read = sum(read) // 4
    assert num_read <= num_ranks * num_rank_parameters(config, num_ranks)
    assert num_read >= source.checkpoint.num_parameters
