"""The states of cached prefixes: which part of a prompt is found, and how many slots that takes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.engine.core.drafters import SumDrafter
from tests.engine.fakes import Bench, config_of, request
from tests.engine.paged_runner import StateRunner, sums

BLOCK_SIZE = 16


def bench(num_states: int = 40, **sizes: Any) -> Bench:
    config = config_of(
        **{
            "block_size": BLOCK_SIZE,
            "num_blocks": 900,
            "max_model_len": 8000,
            "max_prefill_chunk": 512,
            "max_batch_sequences": 8,
            **sizes,
        }
    )
    return Bench(config, runner=StateRunner(), num_states=num_states, drafter=sizes.get("drafter"))


def text(length: int, seed: int) -> list[int]:
    return random.Random(seed).choices(range(97, 123), k=length)


def answer(one: Bench, prompt: list[int], max_tokens: int = 1, **options: Any) -> tuple[list[int], int]:
    """Return an answer to the prompt, and the number of prompt tokens that were found in the cache."""
    group = one.add(request(prompt, max_tokens=max_tokens, ignore_eos=True, **options))
    one.run()
    tokens = one.tokens(group.serial)
    assert tokens == sums(prompt, max_tokens, 0)
    return tokens, group.num_cached_tokens


@pytest.mark.slow
def test_turns_of_a_chat_find_what_they_share() -> None:
    """In 20 turns, each prompt finds at least 95 % of the turn before it in steps of 64 tokens."""
    one, prompt, found, shared, num_shared = bench(), text(100, 0), 0, 0, 0
    for turn in range(20):
        tokens, num_cached = answer(one, prompt, 75)
        if turn:
            found += num_cached
            shared += num_shared // 64 * 64
        num_shared = len(prompt) + len(tokens)
        prompt = [*prompt, *tokens, *text(40, turn + 1)]
    assert found >= 0.95 * shared


@pytest.mark.parametrize(("num_states", "second"), [(8 + 57, 1536), (8 + 4, 1024)])
def test_a_shared_beginning_is_found_from_the_third_request_on(num_states: int, second: int) -> None:
    """The second request finds a regular checkpoint or, with few slots, a power of two, and keeps its departure."""
    one, system = bench(num_states), text(1600, 0)
    found = [answer(one, system + text(100, seed + 1))[1] for seed in range(4)]
    assert found == [0, second, 1600, 1600]


def test_four_thousand_shared_tokens_are_hardly_computed_again() -> None:
    """With a slot for each 256 tokens of the cache, the second request computes less than 0.06 of the first."""
    one, system = bench(8 + 57), text(4000, 0)
    for seed in range(3):
        answer(one, system + text(24, seed + 1))
    counts = [sum(num for step in one.runner.steps for name, num in step if name == serial) for serial in range(3)]
    assert counts[0] >= 4024
    assert max(counts[1:]) <= 0.06 * counts[0]


def test_choices_share_the_computation_of_their_prompt() -> None:
    """Further choices compute at most a block of the prompt, with and without prefix caching."""
    for prefix_caching in (True, False):
        one = bench(prefix_caching=prefix_caching)
        one.add(request(text(200, 0), n=4, max_tokens=1, ignore_eos=True))
        one.run()
        assert sum(num for step in one.runner.steps for _, num in step) <= 200 + 3 * BLOCK_SIZE


def test_states_are_private_to_their_salt() -> None:
    """Another salt finds nothing, and the same salt does."""
    one, prompt = bench(), text(200, 0)
    assert [answer(one, prompt, cache_salt=salt)[1] for salt in "aba"] == [0, 0, 192]


def test_a_state_is_evicted_with_its_blocks() -> None:
    """A prompt whose blocks were evicted finds nothing, and its slot is free."""
    one = bench(num_blocks=30, max_model_len=400)
    answer(one, text(200, 0))
    assert one.scheduler.memory.num_cached_states == 1
    for seed in range(1, 5):
        answer(one, text(300, seed))
    assert answer(one, text(200, 0))[1] == 0
    one.core.check()


def test_one_slot_per_sequence_suffices() -> None:
    """Without further slots nothing is kept; a running sequence can take over a checkpoint's slot."""
    one, prompt = bench(num_states=1, max_batch_sequences=1), text(100, 0)
    assert [answer(one, prompt)[1] for _ in range(2)] == [0, 0]
    two = bench(num_states=2, max_batch_sequences=2)
    answer(two, prompt)
    assert two.scheduler.memory.num_cached_states == 1
    for _ in range(2):
        two.add(request(prompt, max_tokens=3, ignore_eos=True))
    two.run()
    two.assert_idle()
    assert {tuple(two.tokens(serial)) for serial in (1, 2)} == {tuple(sums(prompt, 3, 0))}


def test_a_start_from_a_checkpoint_leaves_slots_for_the_others() -> None:
    """As many sequences as there are slots start in one step, and two of them from the same checkpoint."""
    one = bench(num_states=3, max_batch_sequences=3)
    prompts = [text(100, 0), text(100, 1), text(100, 0), text(100, 2)]
    answer(one, prompts[0])
    for prompt in prompts[1:]:
        one.add(request(prompt, max_tokens=3, ignore_eos=True))
    for prompt in prompts[:3]:
        one.add(request(prompt, max_tokens=3, ignore_eos=True))
    one.run()
    one.assert_idle()
    for serial, prompt in enumerate(prompts[1:] + prompts[:3], 1):
        assert one.tokens(serial) == sums(prompt, 3, 0)


@pytest.mark.parametrize("wrong", [0.0, 0.4, 1.0])
def test_rejected_drafts_leave_no_trace(wrong: float) -> None:
    """Answers are those without drafts; accepted drafts before a wrong one are computed again."""
    config = config_of(block_size=BLOCK_SIZE, num_blocks=40, max_model_len=400)
    one = Bench(config, runner=StateRunner(), num_states=4, drafter=SumDrafter(wrong))
    answer(one, text(40, 0), 120)
    stats = one.core.stats()
    assert stats.num_draft_tokens > 0
    assert (stats.num_accepted_draft_tokens > 0) == (wrong < 1)
    assert (stats.num_steps < 120) == (wrong < 1)
