"""Fixtures for all tests of the engine."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from service.engine.constraints import ending
from tests.engine.started_engine import Starter


@pytest.fixture(params=["thread", pytest.param("process", marks=pytest.mark.slow)])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Starter:
    """Start engines, in one run on threads and in another one in processes."""
    return Starter(request.param, tmp_path)


@pytest.fixture
def start_thread(tmp_path: Path) -> Starter:
    """Start engines on threads, which share the test's clock."""
    return Starter("thread", tmp_path)


@pytest.fixture
def start_process(tmp_path: Path) -> Starter:
    """Start engines in processes."""
    return Starter("process", tmp_path)


@pytest.fixture(autouse=True)
def restore_thread() -> Iterator[None]:
    """Restore the settings of the test's thread, which a runner may have changed."""
    num_threads = torch.get_num_threads()
    yield
    torch.set_flush_denormal(False)
    torch.set_num_threads(num_threads)


@pytest.fixture(autouse=True)
def unhurried() -> Iterator[None]:
    """Give the search for the end of a constrained answer twenty times as long, for slow machines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ending, "_FIRST_S", 40.0)
        patch.setattr(ending, "_CHOICE_S", 10.0)
        yield
