"""Save the cached prefixes of an engine when it stops, and load them when it starts again."""

from __future__ import annotations

import logging
import time
from collections import abc

from service.engine.core.blocks.sequence_memory import SequenceMemory
from service.engine.core.snapshot.snapshot_file import Rows, SnapshotUnusable
from service.engine.core.snapshot.snapshot_folder import SnapshotFolder

_log = logging.getLogger(__name__)


class CacheSnapshot:
    """The snapshot of one engine's cache. Errors are logged: without a snapshot, prompts are computed again."""

    def __init__(self, folder: SnapshotFolder, seal: abc.Callable[[], bytes], rows: abc.Sequence[Rows]) -> None:
        """`seal` returns a hash of all that determines a block's bytes, except the tokens and what the salt contains.

        `rows` has the backend's memory of blocks and, if there are any, of recurrent states.
        """
        self._folder = folder
        self._seal = seal
        self._rows = rows

    def load(self, memory: SequenceMemory) -> None:
        """Fill an empty memory with the prefixes of the snapshot, if there is one."""
        began = time.monotonic()
        try:
            if num_removed := self._folder.remove_plain():
                _log.warning("%s: removed %d files that were not encrypted", self._folder.folder, num_removed)
            entries = self._folder.read(self._seal(), self._rows)
        except (SnapshotUnusable, OSError) as error:
            _log.warning("%s: the cached prompts can't be used: %s", self._folder.folder, error)
            return
        if entries:
            memory.adopt(entries)
            message = "%s: loaded %d cached blocks in %.2f s"
            _log.info(message, self._folder.folder, memory.num_adopted_blocks, time.monotonic() - began)

    def save(self, memory: SequenceMemory) -> None:
        """Replace the snapshot by the memory's prefixes. An empty memory leaves it as it is."""
        entries = memory.contents()
        if not entries:
            return
        began = time.monotonic()
        try:
            num_written = self._folder.write(self._seal(), entries, self._rows)
        except OSError as error:
            _log.warning("%s: the cached prompts can't be saved: %s", self._folder.folder, error)
            return
        message = "%s: saved %d of %d cached blocks and states in %.2f s"
        _log.info(message, self._folder.folder, num_written, len(entries), time.monotonic() - began)
