"""The digest of a model's weights, as they were when the model was loaded."""

from __future__ import annotations

import threading

from service.engine.models.checkpoint.checkpoint import Checkpoint


class WeightsChanged(Exception):  # noqa: N818  a name states the condition
    """The files of the weights are no longer those that were loaded."""


class Weights:
    """The files of a model's weights."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        """`checkpoint` is opened when the model is loaded."""
        self._checkpoint = checkpoint
        self._loaded = checkpoint.versions()
        self._lock = threading.Lock()
        self._digest = ""

    def digest(self) -> str:
        """Return a hash of all bytes of the files: the first call reads them, about half a second per gigabyte.

        Raise WeightsChanged if a file was changed since the model was loaded.
        """
        with self._lock:
            try:
                digest = self._digest or self._checkpoint.content_digest()
                is_same = self._checkpoint.versions() == self._loaded
            except OSError:
                is_same = False
            if not is_same:
                raise WeightsChanged("the files of the weights have changed since the model was loaded")
            self._digest = digest
            return digest
