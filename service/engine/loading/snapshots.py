"""The snapshot of a loaded model's cache, if the settings ask for one."""

from __future__ import annotations

import hashlib
import logging
from collections import abc
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from service.engine.core.snapshot.cache_snapshot import CacheSnapshot
from service.engine.core.snapshot.snapshot_folder import SnapshotFolder
from service.engine.interface.cache_group import CacheGroup
from service.engine.interface.config import EngineConfig
from service.engine.models.checkpoint.checkpoint import Checkpoint
from service.engine.models.interface.backend import Backend, ExposesCache

_FORMAT: Final = "1"  # of blocks and states in memory; raise it with each change of their layout

_log = logging.getLogger(__name__)


def start_digest(checkpoint: Checkpoint, config: EngineConfig) -> Future[str] | None:
    """Compute the digest of the weights on a thread while they are loaded, if the settings ask for a snapshot."""
    if config.cache_folder is None:
        return None
    hashing = ThreadPoolExecutor(1, thread_name_prefix="digest")
    digest = hashing.submit(checkpoint.content_digest)
    hashing.shutdown(wait=False)
    return digest


def open_snapshot(
    backend: Backend[Any],
    config: EngineConfig,
    groups: abc.Sequence[CacheGroup],
    *,
    fingerprint: str,
    weights_digest: Future[str] | None,
    folder: Path,
) -> CacheSnapshot | None:
    """Return the snapshot of a backend's cache, or None if there is none; the log has the reason.

    `fingerprint` is the model's, `weights_digest` that of all weights, `folder` the model's.
    """
    if config.cache_folder is None or weights_digest is None:
        return None
    if not isinstance(backend, ExposesCache):
        _log.warning("%s: engine.cache_folder is ignored, because the backend has no cache in host memory", folder)
        return None
    if config.draft_model is not None:
        _log.warning("%s: engine.cache_folder is ignored, because engine.draft_model has a cache of its own", folder)
        return None
    rows = backend.cache_rows()
    layout = [_FORMAT, config.tokens_per_block, [group.window for group in groups], [each.shape[1] for each in rows]]

    def seal() -> bytes:
        return hashlib.sha256(repr([fingerprint, weights_digest.result(), layout]).encode()).digest()

    return CacheSnapshot(SnapshotFolder(config.cache_folder, config.cache_folder_bytes), seal, rows)
