"""The attention windows of a GGUF file's layers."""

from __future__ import annotations

from typing import Any, Final

from service.engine.loading.gguf.metadata import GgufMetadata

_SLIDING: Final = "sliding_attention"
_FULL: Final = "full_attention"


def kinds(metadata: GgufMetadata, period: int) -> list[str]:
    """Return the kind of each layer's attention: by the file's list, or full in each `period`-th layer."""
    slides = metadata.layers("attention.sliding_window_pattern")
    if slides is None:
        each = metadata.size("attention.sliding_window_pattern", period)
        slides = [(layer + 1) % each for layer in range(metadata.size("block_count"))]
    return [_SLIDING if each else _FULL for each in slides]


def windows(metadata: GgufMetadata, period: int) -> dict[str, Any]:
    """Return the fields of windows; no layer slides if the file has no window."""
    window = metadata.optional_size("attention.sliding_window")
    num_layers = metadata.size("block_count")
    return {
        "sliding_window": window,
        "layer_types": [_FULL] * num_layers if window is None else kinds(metadata, period),
    }
