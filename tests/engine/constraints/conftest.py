"""Endings are computed on slow machines, too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from service.engine.constraints import ending


@pytest.fixture(autouse=True)
def unhurried() -> Iterator[None]:
    """Give the search for an ending twenty times as long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ending, "_FIRST_S", 40.0)
        patch.setattr(ending, "_CHOICE_S", 10.0)
        yield
