"""What there is to know of an adapter that an engine has loaded."""

from __future__ import annotations

from typing import NamedTuple


class AdapterLoaded(NamedTuple):
    """An adapter is loaded; `rank` is the largest of its modules'."""

    rank: int
    num_parameters: int
    digest: str  # changes with what may change tokens
