"""Markers that may be cut off at the end of a text so far."""

from __future__ import annotations


def num_marker_characters(text: str, marker: str) -> int:
    """Return the length of the longest suffix of `text` that is a proper prefix of `marker`."""
    return next((n for n in range(min(len(marker) - 1, len(text)), 0, -1) if text.endswith(marker[:n])), 0)
