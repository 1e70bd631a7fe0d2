"""Fixtures for all tests of the engine."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.engine.started_engine import Starter


@pytest.fixture(params=["thread", pytest.param("process", marks=pytest.mark.slow)])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Starter:
    """Starts engines: once on threads, and once in processes."""
    return Starter(request.param, tmp_path)


@pytest.fixture
def start_thread(tmp_path: Path) -> Starter:
    """Starts engines on threads, where a test shares its clock with them."""
    return Starter("thread", tmp_path)


@pytest.fixture
def start_process(tmp_path: Path) -> Starter:
    """Starts engines in processes."""
    return Starter("process", tmp_path)


@pytest.fixture(autouse=True)
def thread_as_before() -> Iterator[None]:
    """A runner sets up the thread that steps it; where that is the tests' own, others are to find it as it was."""
    num_threads = torch.get_num_threads()
    yield
    torch.set_flush_denormal(False)
    torch.set_num_threads(num_threads)
