"""Settings and fixtures of the tests in this folder."""

from collections.abc import Iterator

import hypothesis
import pytest

from service.pipeline.chat import ChatPipeline
from service.pipeline.thinking import ReasoningBudgets
from tests.pipeline.fakes import pipeline_of

# How long an example takes says nothing: the machine may be busy.
hypothesis.settings.register_profile("unhurried", deadline=None)
hypothesis.settings.load_profile("unhurried")


@pytest.fixture(scope="module")
def pipeline() -> Iterator[ChatPipeline]:
    """A pipeline over ChatML and a small tokenizer."""
    pipeline = pipeline_of(default_system_prompt="Be kind.", budgets=ReasoningBudgets(low=4, medium=40, high=None))
    yield pipeline
    pipeline.close()
