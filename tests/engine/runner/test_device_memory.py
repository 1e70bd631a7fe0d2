"""The division of a device's memory, and the errors if it doesn't suffice."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from service.engine.device.device_memory import cache_capacity, explain_out_of_memory, graph_bytes, require_capacity
from service.engine.runner.step_memory import measure_step_bytes
from service.generation.errors import ModelLoadError
from tests.engine.block_backend import BlockBackend

GB = 10**9
FOLDER = Path("models/large")


class Memory:
    """A device of 64 GB, of which `taken` bytes are in use."""

    def __init__(self, taken: int, peak: int = 0) -> None:
        self._taken = taken
        self._peak = peak
        self.num_resets = 0

    def info(self) -> tuple[int, int]:
        return 64 * GB - self._taken, 64 * GB

    def reset_peak(self) -> None:
        self.num_resets += 1

    def peak(self) -> int:
        return self._peak


def test_cache_takes_what_weights_a_step_and_cuda_graphs_leave() -> None:
    """The cache gets 0.9 of 64 GB minus 16 GB in use, 3 GB for a step and 1 GB for CUDA graphs."""
    assert graph_bytes(Memory(0)) == GB
    assert cache_capacity(Memory(16 * GB), 0.9, 3 * GB) == int(57.6 * GB) - 20 * GB


def test_what_others_have_taken_of_the_device_is_theirs() -> None:
    """A second engine gets the memory that the first engine and its share of the device leave."""
    assert cache_capacity(Memory(40 * GB), 0.9, 0) - cache_capacity(Memory(50 * GB), 0.9, 0) == 10 * GB
    assert cache_capacity(Memory(60 * GB), 0.9, 0) < 0


def test_weights_that_do_not_fit_are_rejected_before_they_are_read() -> None:
    """The error is one line with all sizes."""
    require_capacity(Memory(2 * GB), 0.9, 55 * GB, FOLDER)
    with pytest.raises(ModelLoadError) as caught:
        require_capacity(Memory(2 * GB), 0.9, 56 * GB, FOLDER)
    assert str(caught.value) == (
        "models/large: the weights take 56.0 GB, and 55.6 GB are left: engine.device_memory 0.9 of the device's "
        "64.0 GB, 2.0 GB taken"
    )


def test_torchs_error_becomes_one_line() -> None:
    with pytest.raises(ModelLoadError) as caught, explain_out_of_memory(Memory(63 * GB), FOLDER):
        raise torch.OutOfMemoryError("pages of text")
    assert str(caught.value).startswith(
        "models/large: the device has no memory left while it is loaded: 1.0 of 64.0 GB"
    )
    assert "\n" not in str(caught.value)


def test_other_errors_pass_as_they_are() -> None:
    with pytest.raises(RuntimeError, match="something else"), explain_out_of_memory(Memory(0), FOLDER):
        raise RuntimeError("something else")
    with pytest.raises(torch.OutOfMemoryError), explain_out_of_memory(None, FOLDER):
        raise torch.OutOfMemoryError("where no device is")


def test_largest_step_is_computed_and_measured() -> None:
    """The largest step's tokens are distributed over the sequences, and the sampler's copies of logits are added."""
    backend, memory = BlockBackend(), Memory(0, peak=5_000)
    taken = measure_step_bytes(
        backend, memory, num_tokens=70, num_sequences=4, max_positions=64, block_size=8, vocab_size=100
    )
    assert taken == 5_000 + 4 * 4 * 4 * 100
    assert memory.num_resets == 1
    assert len(backend.memory) == 3  # blocks for 18 tokens, all computed
    assert sum(token == 0 for block in backend.memory for token in block) == 18


def test_no_sequence_of_the_largest_step_is_longer_than_the_model_allows() -> None:
    """A step of up to 70 tokens has two sequences of at most 32 tokens."""
    backend = BlockBackend()
    measure_step_bytes(
        backend, Memory(0), num_tokens=70, num_sequences=2, max_positions=32, block_size=8, vocab_size=100
    )
    assert len(backend.memory) == 4
