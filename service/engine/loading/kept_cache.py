"""Let a KV cache outlive its engine's process: in memory that the parent process owns, or as a snapshot on disk."""

from __future__ import annotations

import hashlib
import logging
import os
from collections import abc
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from service.engine.core.blocks.cache_memory import CacheMemory
from service.engine.core.snapshot.cache_snapshot import CacheSnapshot
from service.engine.core.snapshot.snapshot_folder import SnapshotFolder
from service.engine.interface.cache_group import CacheGroup
from service.engine.interface.config import EngineConfig
from service.engine.models.checkpoint.checkpoint import Checkpoint
from service.engine.models.interface.backend import Backend, ExposesCache, KeepsSequenceState
from service.storage.encryption_key import EncryptionKeyError, read_encryption_key

_FORMAT: Final = 1  # version of the layout of blocks and states in memory; increment it when the layout changes

_log = logging.getLogger(__name__)


def start_digest(checkpoint: Checkpoint, config: EngineConfig) -> Future[str] | None:
    """Start computing the digest of the weights on a thread, or return None if snapshots are off."""
    if config.cache_folder is None:
        return None
    hashing = ThreadPoolExecutor(1, thread_name_prefix="digest")
    digest = hashing.submit(checkpoint.content_digest)
    hashing.shutdown(wait=False)
    return digest


@dataclass(frozen=True, slots=True)
class KeptCache:
    """The cache of a loaded model. `config` has no automatic values left except `num_blocks`."""

    backend: Backend[Any]
    checkpoint: Checkpoint
    config: EngineConfig
    groups: abc.Sequence[CacheGroup]
    fingerprint: str  # of the model

    @property
    def unsupported_reason(self) -> str | None:
        """Why another process can't use this cache, or None if it can."""
        if not isinstance(self.backend, ExposesCache):
            return "the backend has no cache in host memory"
        if self.config.draft_model is not None:
            return "engine.draft_model has a cache of its own"
        return None if self.config.prefix_caching else "engine.prefix_caching is off"

    def place(self, path: str | None, num_blocks: int, num_states: int) -> CacheMemory | None:
        """Let the backend allocate its cache in the file `path`, a memory file of the parent process.

        Return None if there is no such file or it can't be used; the cache is then lost when this process ends.
        """
        if path is None or not isinstance(self.backend, ExposesCache) or self.unsupported_reason is not None:
            return None
        shapes = [(num_blocks, self.backend.bytes_per_block(self.config.tokens_per_block))]
        if isinstance(self.backend, KeepsSequenceState):
            shapes.append((num_states, self.backend.bytes_per_sequence))
        file = None
        try:
            seal = self._seal(self.checkpoint.versions(), shapes)
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            memory = CacheMemory(file, seal, shapes)
        except OSError as error:
            if file is not None:
                os.close(file)
            _log.warning("%s: the cache can't outlive the engine's process: %s", self.checkpoint.folder, error)
            return None
        self.backend.place_cache(file, memory.offsets)
        return memory

    def snapshot(self, weights_digest: Future[str] | None) -> CacheSnapshot | None:
        """Return the snapshot of an allocated cache, or None if snapshots are off or unsupported.

        There is none if the key that encrypts it can't be read: an engine that is restarted serves without its cache.
        """
        if self.config.cache_folder is None or weights_digest is None:
            return None
        message = "%s: engine.cache_folder is ignored: %s"
        if self.unsupported_reason is not None or not isinstance(self.backend, ExposesCache):
            _log.warning(message, self.checkpoint.folder, self.unsupported_reason)
            return None
        rows = self.backend.cache_rows()
        sizes = [each.shape[1] for each in rows]
        try:
            key_file = self.config.cache_key_file
            key = None if key_file is None else read_encryption_key(key_file)
        except EncryptionKeyError as error:
            _log.warning(message, self.checkpoint.folder, error)
            return None
        folder = SnapshotFolder(self.config.cache_folder, self.config.cache_folder_bytes, key=key)
        return CacheSnapshot(folder, lambda: self._seal(weights_digest.result(), sizes), rows)

    def _seal(self, *parts: Any) -> bytes:
        """Return a hash of all that blocks depend on. A process uses only caches with its own seal."""
        windows = [group.window for group in self.groups]
        described = [_FORMAT, self.fingerprint, self.config.tokens_per_block, windows, *parts]
        return hashlib.sha256(repr(described).encode()).digest()
