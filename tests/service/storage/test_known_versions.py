"""Processes that share a text record which version they know."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from service.storage.document import TextStore
from service.storage.shared_file import SharedFile
from service.storage.shared_text import SharedText
from tests.redis_server import RedisServer
from tests.waiting import GUARD_S


@pytest.fixture(params=["file", pytest.param("redis", marks=pytest.mark.slow)])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], TextStore]:
    """Return a function that opens the same text again."""
    if request.param == "file":
        return lambda: SharedFile(tmp_path / "text")
    redis: RedisServer = request.getfixturevalue("redis")
    return lambda: SharedText(redis.url, "x", GUARD_S)


def test_process_is_behind_until_it_has_read_the_newest_text(opened: Callable[[], TextStore]) -> None:
    """A process counts from its first record to its close, and is behind while it knows an earlier text."""
    one, other = opened(), opened()
    assert one.read() is None
    assert one.num_behind() == 0
    assert other.read() is None
    assert other.num_behind() == 0
    one.write("first")
    assert one.num_behind() == 1
    assert one.num_behind() == 1
    other.read()
    assert other.num_behind() == 0
    assert one.num_behind() == 0
    one.write("second")
    assert one.num_behind() == 1
    other.close()
    assert one.num_behind() == 0
    one.close()
