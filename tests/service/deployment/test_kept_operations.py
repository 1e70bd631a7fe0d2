"""How long operations are kept, with changes that end at once and a clock that the test drives."""

from __future__ import annotations

from typing import Any

import pytest

from service.deployment.changes import LoadedModel
from service.deployment.operations.operation import Operation, OperationError, OperationState
from service.deployment.operations.operations import KEPT_S, MAX_ENDED, Operations
from service.generation.caller import Caller
from service.generation.errors import ModelLoadError
from service.registry.errors import OperationNotFound
from tests.engine.fakes import Clock, until

OWNER, OTHER = Caller(id="owner"), Caller(id="other")


class Changes:
    """Loads that end at once, with an error for the name `broken`."""

    async def check_load(self, entry: LoadedModel, caller: Caller) -> None:
        """Admit every load."""

    async def load_model(self, entry: LoadedModel, caller: Caller, operation: Operation) -> None:
        """Load nothing."""
        if entry.name == "broken":
            raise ModelLoadError("broken")


async def ended(operations: Operations, caller: Caller, name: str = "m") -> Operation:
    """Return an operation when it has ended."""
    operation = await operations.load(LoadedModel(name=name, path="p"), caller)
    await until(lambda: operation.state is not OperationState.RUNNING)
    return operation


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def operations(clock: Clock) -> Operations:
    changes: Any = Changes()
    return Operations(changes, lambda error: OperationError(3, str(error)), clock)


async def test_an_ended_operation_is_forgotten_after_an_hour(operations: Operations, clock: Clock) -> None:
    first = await ended(operations, OWNER, "broken")
    clock.now += KEPT_S - 1
    second = await ended(operations, OWNER)
    assert operations.list(OWNER) == [second, first]
    assert operations.get(first.id, OWNER) is first
    assert (first.state, first.error) == (OperationState.FAILED, OperationError(3, "broken"))
    clock.now += 1
    with pytest.raises(OperationNotFound):
        operations.get(first.id, OWNER)
    assert operations.list(OWNER) == [second]


async def test_the_last_ended_operations_of_each_key_are_kept(operations: Operations) -> None:
    foreign = await ended(operations, OTHER)
    own = [await ended(operations, OWNER) for _ in range(MAX_ENDED + 2)]
    assert operations.list(OWNER) == own[:1:-1]
    assert operations.list(OTHER) == [foreign]
