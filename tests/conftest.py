"""Fixtures of all tests: the whole product, started once, and its collector; the rule of `slow`."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.collector import Collector
from tests.e2e.stack import Stack
from tests.redis_server import RedisServer

TESTS = Path(__file__).parent
CUDA_DRIVER = Path("/dev/nvidiactl")  # without it no device can be reached
SLOW_FIXTURES = {"stack", "redis", "shared_redis"}  # the whole product; a Redis server
SLOW_FOLDERS = {TESTS / "e2e", TESTS / "clients"}  # they need npm, a browser or environments of other clients


def pytest_configure() -> None:
    """Ctrl-C reaches what tests start, too, where a shell runs them in the background and so has it ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark as slow what is in these folders, and what uses servers of its own; single tests say it by a decorator.

    What is marked `cuda` is skipped where there is no such device.
    What is marked `long`, `soak`, `large`, `cluster`, `deploy` or `ray` runs only where `-m` names it.
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
    stack = Stack(f"--otlp-endpoint=http://127.0.0.1:{collector.port}")
    try:
        stack.wait_for("sluice is ready.")
        yield stack
    finally:
        assert stack.stop() == 0, stack.output


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    """A Redis server of its own for each test."""
    server = RedisServer()
    yield server
    server.close()
