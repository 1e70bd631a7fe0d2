"""The Redis servers of this folder's tests."""

from collections.abc import Iterator

import pytest

from tests.service.quota.redis_server import RedisServer


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    """A server of its own for each test."""
    server = RedisServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def shared_redis() -> Iterator[RedisServer]:
    """One for many examples, which begin by emptying it."""
    server = RedisServer()
    yield server
    server.close()
