"""The parameters of rotary positions in a GGUF file's metadata, by transformers' names."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from service.engine.loading.gguf.metadata import GgufMetadata
from service.engine.models.checkpoint.gguf.names import FACTORS, LONG_FACTORS, SHORT_FACTORS
from service.generation.errors import ModelLoadError

_LLAMA3: Final = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
_LLAMA3_SCALES: Final = (8.0, 16.0, 32.0)  # Llama 3.1 and 3.3; EXAONE 4; Llama 3.2
_FACTOR: Final = "rope.scaling.factor"
_OLD_FACTOR: Final = "rope.scale_linear"  # its key in old files
_ALPHA: Final = "rope.scaling.alpha"  # a fixed stretch of the base, which Hunyuan's models have
_TRAINED_LENGTH: Final = "rope.scaling.original_context_length"
_YARN_FACTORS: Final = {"rope.scaling.yarn_ext_factor": 1.0, "rope.scaling.yarn_attn_factor": 1.0}  # as supported


def rope_scaling(metadata: GgufMetadata, base: float, head_dim: int) -> dict[str, Any] | None:
    """Return `rope_scaling` of config.json; None for the usual positions. Raise ModelLoadError for an unknown kind."""
    if (factors := metadata.numbers(FACTORS)) is not None:
        return _llama3(metadata, factors.astype(np.float64), base, head_dim)
    if not _is_zero(metadata.own(_ALPHA, 0)):
        return {"rope_type": "dynamic", "alpha": metadata.number(_ALPHA), "factor": 1.0}
    factor = _FACTOR if metadata.own(_FACTOR, None) is not None else _OLD_FACTOR
    kind = metadata.own("rope.scaling.type", None)
    if kind is None:  # a factor without a kind is linear
        kind = "none" if _is_zero(metadata.own(factor, 0)) else "linear"
    if kind in {"none", "", "longrope"}:
        return _long(metadata)
    if kind == "linear":
        has_old = metadata.own(_OLD_FACTOR, None) is not None
        return {"rope_type": "linear", "factor": metadata.number(factor if has_old else _FACTOR)}
    if kind == "yarn":
        return _yarn(metadata)
    raise ModelLoadError(f"{metadata.file}: {metadata.kind}.rope.scaling.type {kind} is not supported")


def rotated_share(metadata: GgufMetadata, head_dim: int) -> float:
    """Return the share of a head that is rotated."""
    return min(metadata.size("rope.dimension_count", head_dim), head_dim) / head_dim


def _is_zero(value: object) -> bool:
    return isinstance(value, int | float) and value == 0


def _yarn(metadata: GgufMetadata) -> dict[str, Any]:
    for name, usual in _YARN_FACTORS.items():
        if metadata.own(name, usual) != usual:
            raise ModelLoadError(f"{metadata.file}: {metadata.kind}.{name} must be {usual}")
    found = {
        "rope_type": "yarn",
        "factor": metadata.number(_FACTOR),
        "original_max_position_embeddings": metadata.size(_TRAINED_LENGTH),
    }
    for name in ("beta_fast", "beta_slow"):
        if metadata.own(f"rope.scaling.yarn_{name}", None) is not None:
            found[name] = metadata.number(f"rope.scaling.yarn_{name}")
    return found


def _long(metadata: GgufMetadata) -> dict[str, Any] | None:
    """Return the scaling with the file's factors, one for each frequency, within and beyond the length of training."""
    long, short = metadata.numbers(LONG_FACTORS), metadata.numbers(SHORT_FACTORS)
    if long is None or short is None:
        return None
    return {"rope_type": "longrope", "long_factor": long.tolist(), "short_factor": short.tolist()}


def _llama3(metadata: GgufMetadata, factors: npt.NDArray[np.float64], base: float, head_dim: int) -> dict[str, Any]:
    """Return the scaling that has the file's factors, one for each frequency."""
    wave_lengths = 2 * np.pi * base ** (np.arange(0, head_dim, 2) / head_dim)
    original, low, high = (
        _LLAMA3[name] for name in ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor")
    )
    smooth_factor = np.clip((original / wave_lengths - low) / (high - low), 0, 1)
    for scale in _LLAMA3_SCALES:
        expected = 1 / ((1 - smooth_factor) / scale + smooth_factor)
        if factors.shape == expected.shape and np.allclose(expected, factors, rtol=1e-3):
            return {"rope_type": "llama3", "factor": scale, **_LLAMA3}
    raise ModelLoadError(f"{metadata.file}: {FACTORS} must be those of Llama 3.1, 3.2 or 3.3, or EXAONE 4")
