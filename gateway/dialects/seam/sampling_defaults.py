"""Sampling parameters that a request omits, and their documented values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

SamplingDefaults: TypeAlias = Mapping[str, float]
"""The values that an API documents for omitted parameters, by the names of the contract's SamplingParams."""

MODELS_OWN: Final[SamplingDefaults] = {}
UNMODIFIED: Final[SamplingDefaults] = {"temperature": 1, "top_p": 1}


def set_defaults(request: Any, defaults: SamplingDefaults) -> None:
    """Set the omitted sampling parameters of a request to `defaults`, if its RPC samples."""
    if "sampling" not in request.DESCRIPTOR.fields_by_name:
        return
    for name, value in defaults.items():
        if not request.sampling.HasField(name):
            setattr(request.sampling, name, value)
