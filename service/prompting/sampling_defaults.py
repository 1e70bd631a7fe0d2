"""The recommended sampling defaults of a model: its generation_config.json."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from service.generation.errors import ModelLoadError
from service.generation.requests.parameters import MODEL_DEFAULTS, Ranges, SamplingParams, Trait, parameters_with

_FILE: Final = "generation_config.json"

_log = logging.getLogger(__name__)

SamplingDefaults = Mapping[str, float]


def read_sampling_defaults(folder: Path, ranges: Ranges) -> SamplingDefaults:
    """Return the sampling parameters in the folder's file, by the names of the request's parameters.

    A value out of its range is ignored with a warning; a count of 0 is ignored silently.
    Raise ModelLoadError for an unreadable file.
    """
    path = folder / _FILE
    if not path.is_file():
        return {}
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelLoadError(f"{path} can't be used: {error}") from error
    if not isinstance(values, dict):
        raise ModelLoadError(f"{path} can't be used: it is not an object")
    found = {}
    counts = parameters_with(Trait.COUNT, SamplingParams)
    for name in MODEL_DEFAULTS:
        value = values.get(name)
        if value is None or (value == 0 and name in counts):
            continue
        allowed = ranges[f"sampling.{name}"]
        kinds = int if name in counts else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds) or value not in allowed:
            _log.warning("%s: %s is %r and is ignored; it must be %s", path, name, value, allowed)
            continue
        found[name] = value
    return found
