"""Turn every failure of a load into a ModelLoadError: files of models come from anywhere, as do errors of libraries."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from process.lifetime.exit import shortage
from service.engine.interface.running_load import LoadCancelled
from service.generation.errors import EngineError, ModelLoadError

_log = logging.getLogger(__name__)


@contextmanager
def explained_failures(model: str) -> Iterator[None]:
    """Raise ModelLoadError instead of an unexpected exception, which is logged, so that other models are served.

    `model` is the folder, file or hub id that the message names.
    """
    try:
        yield
    except (EngineError, LoadCancelled):
        raise
    except Exception as error:
        reason = shortage(error)
        if reason is None:
            _log.exception("%s can't be loaded", model)
            reason = f"it can't be loaded: {type(error).__name__}: {error}"
        raise ModelLoadError(f"{model}: {reason}") from error
