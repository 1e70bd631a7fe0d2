"""The memory of a worker's cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.engine.link.cache_file import CacheFile
from service.engine.link.engine_spec import EngineSpec
from service.engine.link.process_link import ProcessLink
from service.generation.errors import ModelLoadError


def test_cache_of_a_failed_load_is_closed_while_its_error_is_kept() -> None:
    """The error's traceback refers to the link, and the link to the file."""
    file = CacheFile()
    link = ProcessLink(EngineSpec("tests.engine.link.slow_core:fail", {}), cache_file=file)
    with pytest.raises(ModelLoadError, match="broken"):
        link.launch()
    assert not Path(file.path).exists()
