"""The inverse frequencies of rotary positions, with their scaling methods."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Frequencies = npt.NDArray[np.float32]


def rope_frequencies(config: Any, head_dim: int, rope: Mapping[str, Any] | None = None) -> tuple[Frequencies, float]:
    """Return the inverse frequencies of a head's rotated dimensions, in pairs, and the rotation's factor.

    `rope` are the parameters, by default those of the whole model. Frequencies of longrope are those up to the trained
    length.
    """
    rope = config.rope_parameters if rope is None else rope
    kind, share = rope.get("rope_type", "default"), rope.get("partial_rotary_factor", 1.0)
    if kind == "proportional":
        return _proportional(rope, head_dim, share), 1.0
    dim = int(head_dim * share)
    powers = np.float32(rope["rope_theta"]) ** (np.arange(0, dim, 2, dtype=np.float32) / np.float32(dim))
    frequencies = (1 / powers).astype(np.float32)
    if kind == "linear":
        return (frequencies / np.float32(rope["factor"])).astype(np.float32), 1.0
    if kind == "llama3":
        return _llama3(frequencies, rope), 1.0
    if kind == "yarn":
        return _yarn(frequencies, rope, dim, config.max_position_embeddings)
    if kind == "longrope":
        return _longrope(powers, rope, config.max_position_embeddings)
    return frequencies, 1.0


def max_stable_positions(config: Any) -> int | None:
    """Return the length up to which rotary positions do not depend on the text's final length; None if unlimited."""
    rope = getattr(config, "rope_parameters", None) or {}
    for each in (rope, *(value for value in rope.values() if isinstance(value, dict))):
        kind = each.get("rope_type")
        if kind == "dynamic":
            return int(config.max_position_embeddings)
        if kind == "longrope":
            trained = each.get("original_max_position_embeddings")
            return int(trained or getattr(config, "original_max_position_embeddings", config.max_position_embeddings))
    return None


def _llama3(frequencies: Frequencies, rope: Mapping[str, Any]) -> Frequencies:
    """Divide low frequencies by the factor, keep high ones, and interpolate those between."""
    turns = rope["original_max_position_embeddings"] * frequencies / (2 * math.pi)  # in the trained context
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    share = np.clip((turns - low) / (high - low), 0, 1)
    blended: Frequencies = (share * frequencies + (1 - share) * frequencies / rope["factor"]).astype(np.float32)
    return blended


def _proportional(rope: Mapping[str, Any], head_dim: int, share: float) -> Frequencies:
    """Rotate the first pairs of a head with the frequencies of a whole head, and the others not at all."""
    num_rotated = int(share * head_dim // 2)
    exponents = np.arange(0, 2 * num_rotated, 2, dtype=np.float32) / np.float32(head_dim)
    frequencies = np.zeros(head_dim // 2, np.float32)
    frequencies[:num_rotated] = 1 / np.float32(rope["rope_theta"]) ** exponents
    return (frequencies / np.float32(rope.get("factor") or 1.0)).astype(np.float32)


def _longrope(powers: Frequencies, rope: Mapping[str, Any], max_positions: int) -> tuple[Frequencies, float]:
    """Ding et al.: LongRoPE (2024), with the factors of texts up to the trained length."""
    trained = rope["original_max_position_embeddings"]
    factor = rope.get("factor") or max_positions / trained
    given = rope.get("attention_factor")
    if given is None:
        given = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(trained))
    return (1 / (np.array(rope["short_factor"], np.float32) * powers)).astype(np.float32), float(given)


def _yarn(frequencies: Frequencies, rope: Mapping[str, Any], dim: int, max_positions: int) -> tuple[Frequencies, float]:
    """Peng et al.: YaRN: Efficient context window extension of large language models (2023)."""
    trained = rope["original_max_position_embeddings"]
    factor = rope["factor"] or max_positions / trained

    def boundary(num_turns: float) -> float:
        """Return the pair of dimensions that makes `num_turns` turns in the trained context."""
        return dim * math.log(trained / (num_turns * 2 * math.pi)) / (2 * math.log(rope["rope_theta"]))

    low, high = boundary(rope.get("beta_fast") or 32), boundary(rope.get("beta_slow") or 1)
    if rope.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    smooth_factor = np.clip((np.arange(dim // 2) - low) / (high - low or 0.001), 0, 1)
    scaled = smooth_factor * frequencies / factor + (1 - smooth_factor) * frequencies
    return scaled.astype(np.float32), float(_yarn_factor(factor, rope))


def _yarn_factor(factor: float, rope: Mapping[str, Any]) -> float:
    """Return the factor by which YaRN scales the rotary embedding: the configured one, or its default."""
    given = rope.get("attention_factor")
    if given is not None:
        return float(given)

    def scale(weight: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1

    weights = rope.get("mscale"), rope.get("mscale_all_dim")
    return scale(weights[0]) / scale(weights[1]) if weights[0] and weights[1] else scale(1)
