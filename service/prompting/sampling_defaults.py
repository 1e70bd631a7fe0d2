"""The sampling defaults of a model's makers: its generation_config.json."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from service.generation.errors import ModelLoadError
from service.generation.requests.parameters import MODEL_DEFAULTS, Ranges, SamplingParams

_FILE: Final = "generation_config.json"

_log = logging.getLogger(__name__)

SamplingDefaults = Mapping[str, float]


def read_sampling_defaults(folder: Path, ranges: Ranges) -> SamplingDefaults:
    """The sampling parameters that the folder's file gives, by the names that requests have for them.

    One that is out of its range is left out, with a warning; a 0 of a parameter that is off by default is left out
    without one. Raises ModelLoadError for a file that can't be read.
    """
    path = folder / _FILE
    if not path.is_file():
        return {}
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelLoadError(f"{path} can't be used: {error}") from error
    if not isinstance(said, dict):
        raise ModelLoadError(f"{path} can't be used: it is no object")
    found = {}
    off = SamplingParams()
    for name in MODEL_DEFAULTS:
        value = said.get(name)
        if value is None or (value == 0 and getattr(off, name) is None):
            continue
        allowed = ranges[f"sampling.{name}"]
        if isinstance(value, bool) or not isinstance(value, int | float) or value not in allowed:
            _log.warning("%s: %s is %r and not used; it must be %s", path, name, value, allowed)
            continue
        found[name] = value
    return found
