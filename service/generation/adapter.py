"""The description of a loaded adapter."""

from __future__ import annotations

from typing import NamedTuple


class AdapterLoaded(NamedTuple):
    """An adapter is loaded; `rank` is the largest of its modules'."""

    rank: int
    num_parameters: int
    digest: str  # changes with everything that may change tokens
