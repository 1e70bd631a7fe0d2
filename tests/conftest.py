"""Fixtures: the whole product, started once for all tests of this folder, and a collector that it exports to."""

from collections.abc import Iterator

import pytest

from tests.e2e.collector import Collector
from tests.e2e.stack import Stack


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
