"""Drafts by a second model, whose cache shares block ids with the first."""

from __future__ import annotations

from collections import abc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.engine.core.sequences.sequence import Sequence
from service.engine.runner.model_drafter import ModelDrafter
from tests.engine.block_backend import BlockBackend, Contexts
from tests.engine.byte_tokenizer import END
from tests.engine.core.drafts.random_answers import check_random_answers
from tests.engine.fake_constraint import FakeConstraint
from tests.engine.fakes import Bench, config_of, request
from tests.engine.paged_runner import BLOCK_SIZE, sum_rule, sums


def draw(logits: Contexts, sequences: abc.Sequence[Sequence], ahead: abc.Sequence[int]) -> list[int]:
    """Return the result of `sum_rule` for the tokens that the model reads from its blocks."""
    lengths = [len(sequence.token_ids) + distance for sequence, distance in zip(sequences, ahead, strict=True)]
    assert [len(context) for context in logits] == lengths
    return [sum_rule(sequence, context) for sequence, context in zip(sequences, logits, strict=True)]


def drafter(num_blocks: int, max_positions: int = 1000) -> ModelDrafter[Contexts]:
    return ModelDrafter(BlockBackend(), draw, num_blocks, BLOCK_SIZE, max_positions=max_positions)


@settings(max_examples=60)
@given(data=st.data())
def test_model_always_finds_its_own_tokens(data: st.DataObject) -> None:
    """A draft model equal to the first one is always right, with any preemption, sharing and drafting."""
    bench = check_random_answers(data, drafter)
    stats = bench.core.stats()
    assert stats.num_accepted_draft_tokens == stats.num_draft_tokens


@pytest.mark.parametrize("length", [5, 255, 256, 257, 700])
def test_long_prompt_is_read_in_pieces_before_the_first_guess(length: int) -> None:
    """No step waits for more than a few hundred prompt tokens; the following drafts are right."""
    bench = Bench(config_of(num_blocks=400, max_model_len=1000), drafter=drafter(400))
    prompt = "ab" * (length // 2) + "c" * (length % 2)
    bench.add(request(prompt, max_tokens=60, ignore_eos=True))
    bench.run()
    assert bench.tokens() == sums(prompt.encode(), 60, 0)
    stats = bench.core.stats()
    assert stats.num_accepted_draft_tokens == stats.num_draft_tokens > 40


class Surprise(FakeConstraint):
    """Expects ten tokens, of which none comes: tokens that a constraint forces are guesses."""

    num_accepted = 0

    def accept(self, token_id: int) -> None:
        self.num_accepted += 1

    def forced_tokens(self) -> list[int]:
        return [END] * 10 if self.num_accepted <= 3 else []

    def fork(self) -> Surprise:
        return Surprise()


@pytest.mark.parametrize("length", range(242, 252, 2))
def test_forced_tokens_that_do_not_come_are_not_counted_as_read(length: int) -> None:
    """A prompt whose last piece ends within forced tokens is continued by those that came instead."""
    bench = Bench(config_of(num_blocks=400, max_model_len=1000), drafter=drafter(400))
    bench.add(request("a" * length, max_tokens=40, ignore_eos=True), constraint=Surprise())
    bench.run()
    assert bench.tokens() == sums(b"a" * length, 40, 0)


def test_model_guesses_nothing_beyond_its_positions() -> None:
    """A draft model with a shorter context drafts up to its end."""
    bench = Bench(config_of(max_model_len=100), drafter=drafter(64, max_positions=30))
    bench.add(request("hello", max_tokens=60, ignore_eos=True))
    bench.run()
    assert bench.tokens() == sums(b"hello", 60, 0)
    assert 10 < bench.core.stats().num_draft_tokens < 25
