"""Loads that never end, or fail, for tests of links. They import no model code."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import NoReturn

from service.engine.interface.running_load import LoadedBytes, running_load
from service.generation.errors import ModelLoadError


def load(folder: Path) -> NoReturn:
    """Report progress, write the file `began`, and wait."""
    running_load().report(LoadedBytes(3, 10))
    (folder / "began").touch()
    threading.Event().wait()
    raise AssertionError


def fail() -> NoReturn:
    """Fail to load."""
    raise ModelLoadError("broken")
