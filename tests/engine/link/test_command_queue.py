"""The queue of commands counts the requests to which steps of batches yield."""

from __future__ import annotations

import queue
from dataclasses import replace

import pytest

from service.engine.interface.messages import Abort, Add
from service.engine.link.loop import CommandQueue
from tests.engine.fakes import request


def test_queue_counts_requests_that_are_not_of_batches() -> None:
    """The numbers differ as long as such a request is queued, and for no other command."""
    commands = CommandQueue()
    person = request("hello")
    for command in (Add(1, replace(person, is_batch=True), 0.0), Abort(1)):
        commands.put(command)
        assert commands.arrivals.tolist() == [0, 0]
    commands.put(Add(2, person, 0.0))
    while not commands.empty():
        assert commands.arrivals.tolist() == [1, 0]
        commands.get(block=False)
    assert commands.arrivals.tolist() == [1, 1]
    with pytest.raises(queue.Empty):
        commands.get(block=False)
