"""A fixture for all tests of the engine."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def thread_as_before() -> Iterator[None]:
    """A runner sets up the thread that steps it; where that is the tests' own, others are to find it as it was."""
    num_threads = torch.get_num_threads()
    yield
    torch.set_flush_denormal(False)
    torch.set_num_threads(num_threads)
