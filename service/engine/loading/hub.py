"""Download models from the hub, with progress in the log."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Any

from service.engine.models.checkpoint.byte_log import ByteLog
from service.generation.errors import ModelLoadError

_FILES = ["*.json", "*.safetensors", "*.jinja"]
_CLIENTS = ("httpx", "httpx2")  # of the library, which log each request with its URL
_WRITTEN = "Reconstructing"  # the library's progress bar that counts written bytes, for all transfer methods


def download(model: str) -> Path:
    """Download the needed files of a hub id that are not cached yet. Raise ModelLoadError if that fails."""
    # Imported here, because the import takes 0.1 s and most models are not downloaded.
    from huggingface_hub import constants, snapshot_download  # noqa: PLC0415
    from huggingface_hub.errors import LocalEntryNotFoundError  # noqa: PLC0415

    for name in _CLIENTS:
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        return Path(snapshot_download(model, allow_patterns=_FILES, tqdm_class=_bars(model)))
    except LocalEntryNotFoundError as error:  # its cause is the network error
        cause = _first_line(error.__cause__ or error)
        where = f"{constants.ENDPOINT} can't be reached" if not constants.is_offline_mode() else "HF_HUB_OFFLINE is set"
        raise ModelLoadError(f"{model} is not a folder and not in the local hub cache; {where}: {cause}") from error
    except Exception as error:  # the libraries that transfer files have errors of their own
        raise ModelLoadError(
            f"{model} is not a folder and could not be downloaded from the model hub: {_first_line(error)}"
        ) from error


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _bars(model: str) -> Any:
    """Return the class of the library's progress bars: None for its own in a terminal, otherwise one that logs."""
    if sys.stderr.isatty() or os.environ.get("TTY_COMPATIBLE") == "1":
        return None
    from tqdm import tqdm  # type: ignore[import-untyped]  # noqa: PLC0415  the library's

    log = ByteLog(f"downloading {model}")

    class LoggedBar(tqdm):  # type: ignore[misc]  # it ships no types
        """A progress bar that logs instead of drawing."""

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **{**options, "disable": True})
            self._counts = str(options.get("desc", "")).startswith(_WRITTEN)

        def update(self, n: float | None = 1) -> bool | None:
            if self._counts:
                log.advance(int(n or 0), int(self.total or 0))
            return None

    return LoggedBar
