"""A cache's file that can't be used costs the cache's survival, nothing else."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

from service.engine.interface.config import EngineConfig
from service.engine.loading.kept_cache import KeptCache
from service.engine.models.checkpoint.checkpoint import Checkpoint


class HostCache:
    """A backend with a cache in host memory, which records the files that it gets."""

    def __init__(self) -> None:
        self.files: list[int] = []

    def bytes_per_block(self, num_tokens: int) -> int:
        """Return the bytes of a block."""
        return 64 * num_tokens

    def cache_rows(self) -> Sequence[NDArray[np.uint8]]:
        """Return nothing, as no cache is allocated."""
        return []

    def place_cache(self, file: int, offsets: Sequence[int]) -> None:
        """Record a file."""
        self.files.append(file)


def num_open(file: int) -> int:
    """Return the number of this process's descriptors of a file."""
    found = 0
    for each in Path("/proc/self/fd").iterdir():
        try:
            found += os.path.sameopenfile(int(each.name), file)
        except OSError:  # closed since it was listed
            continue
    return found


@pytest.mark.parametrize("is_sealed", [False, True])
def test_an_unusable_file_is_closed(tmp_path: Path, caplog: pytest.LogCaptureFixture, *, is_sealed: bool) -> None:
    """A file whose size can't be set is closed and reported; a usable one is given to the backend."""
    save_file({"w": np.ones(2, np.float32)}, tmp_path / "model.safetensors")
    backend = HostCache()
    config = EngineConfig(block_size=16, prefix_caching=True)
    kept = KeptCache(cast(Any, backend), Checkpoint(tmp_path), config, [], "model")
    file = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    try:
        if is_sealed:
            fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
        memory = kept.place(f"/proc/self/fd/{file}", 4, 0)
        if is_sealed:
            assert memory is None
            assert backend.files == []
            assert num_open(file) == 1
            assert "the cache can't outlive the engine's process" in caplog.text
        else:
            assert memory is not None
            assert backend.files == [memory.file]
            os.close(memory.file)
    finally:
        os.close(file)
