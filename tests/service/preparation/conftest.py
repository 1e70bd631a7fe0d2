"""Fixtures of the tests in this folder."""

from collections.abc import Iterator

import pytest

from service.prompting.preparation import Preparation
from service.prompts.chats.reasoning_effort import ReasoningBudgets
from tests.service.preparation.fakes import preparation_of


@pytest.fixture(scope="module")
def preparation() -> Iterator[Preparation]:
    """Yield the preparation of a model with ChatML and a small tokenizer."""
    budgets = ReasoningBudgets(low=4, medium=40, high=None)
    preparation = preparation_of(default_system_prompt="Be kind.", budgets=budgets)
    yield preparation
    preparation.close()
