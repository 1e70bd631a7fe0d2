"""The locations of stores: the tests of the store run with each of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.service.storage.store_locations import PostgresLocation, SqliteLocation, StoreLocation


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> StoreLocation:
    """An empty location."""
    if request.param == "sqlite":
        return SqliteLocation(tmp_path)
    return PostgresLocation(request.getfixturevalue("postgres"))
