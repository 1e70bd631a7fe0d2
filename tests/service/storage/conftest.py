"""Stores for tests: their locations, files and keys."""

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


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a store's file."""
    return tmp_path / "responses.sqlite3"


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """Return the file of a store's key."""
    path = tmp_path / "key"
    path.write_text("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
    return path
