"""Fixtures of all tests: the whole product, started once, and its collector; the marks of slow tests."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.collector import Collector
from tests.e2e.stack import HOLDABLE, Stack, started
from tests.redis_server import RedisServer

TESTS = Path(__file__).parent
CUDA_DRIVER = Path("/dev/nvidiactl")  # absent if no device is accessible
SLOW_FIXTURES = {"stack", "redis", "shared_redis"}  # the whole product; a Redis server
SLOW_FOLDERS = {TESTS / "e2e", TESTS / "clients"}  # need npm, a browser or other clients' environments


def pytest_configure() -> None:
    """Restore Ctrl-C for processes that tests start, which a shell disables for background jobs."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of some folders and fixtures as slow; other tests use the decorator.

    Tests marked `cuda` are skipped if there is no such device.
    Tests marked `long`, `soak`, `large`, `cluster`, `deploy` or `ray` run only if `-m` names the mark.
    """
    for name in ("long", "soak", "large", "cluster", "deploy", "ray"):
        if name not in config.option.markexpr:
            others = [item for item in items if item.get_closest_marker(name)]
            config.hook.pytest_deselected(items=others)
            items[:] = [item for item in items if item not in others]
    for item in items:
        if item.get_closest_marker("cuda") and not CUDA_DRIVER.exists():
            item.add_marker(pytest.mark.skip(reason="no CUDA device here"))
        if SLOW_FOLDERS.intersection(item.path.parents) or SLOW_FIXTURES.intersection(
            getattr(item, "fixturenames", ())
        ):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def collector() -> Iterator[Collector]:
    """An OTLP collector."""
    collector = Collector()
    yield collector
    collector.stop()


@pytest.fixture(scope="session")
def stack(collector: Collector) -> Iterator[Stack]:
    """Service, gateway and Envoy on the bundled model, ready."""
    with started(f"--otlp-endpoint=http://127.0.0.1:{collector.port}", environment=HOLDABLE) as stack:
        yield stack


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    """A separate Redis server for each test."""
    server = RedisServer()
    yield server
    server.close()
