"""Turns of long and short prompts of one key in the scheduler's steps."""

from __future__ import annotations

from tests.engine.fakes import Bench, config_of, request
from tests.engine.paged_runner import sums


def shares(bench: Bench) -> dict[int, int]:
    """Return the number of tokens of each request in the last step, by serial."""
    return dict(bench.runner.steps[-1])


def test_scheduler_computes_much_shorter_prompts_first() -> None:
    """A long prompt yields to those of half its length or less behind it, running or queued."""
    bench = Bench(config_of(max_batch_tokens=64, max_batch_sequences=8, num_blocks=400, max_model_len=400))
    bench.add(request("a" * 300, max_tokens=1))
    bench.step()
    assert shares(bench) == {0: 64}
    for prompt in ("b" * 250, "c" * 40, "d" * 20):
        bench.add(request(prompt, max_tokens=1))
    steps = []
    for _ in range(3):
        bench.step()
        steps.append(shares(bench))
    assert steps == [
        {1: 16, 2: 28, 3: 20},  # the second one starts before those behind it
        {0: 52, 2: 12},
        {0: 64},
    ]
    bench.run()
    assert bench.tokens(0) == sums(b"a" * 300, 1, 0)


def test_scheduler_halves_steps_once_shorter_prompts_had_as_much() -> None:
    """Short prompts that keep arriving compute 256 tokens more than a long one at most, and then half of each step."""
    bench = Bench(config_of(max_batch_tokens=64, max_batch_sequences=8, num_blocks=400, max_model_len=400))
    bench.add(request("a" * 300, max_tokens=1))
    bench.step()
    steps = []
    for letter in "bcdefghij":
        bench.add(request(letter * 64, max_tokens=1))
        bench.step()
        steps.append(shares(bench).get(0, 0))
    assert steps == [0, 0, 0, 0, 0, 32, 32, 32, 32]


def test_scheduler_computes_a_long_prompt_while_shorter_ones_cannot_start() -> None:
    """What shorter prompts leave of a step goes to the long one, also if they have no slot."""
    bench = Bench(config_of(max_batch_tokens=64, max_batch_sequences=1, num_blocks=400, max_model_len=400))
    bench.add(request("a" * 200, max_tokens=1))
    bench.step()
    bench.add(request("b" * 20, max_tokens=1))
    bench.step()
    assert bench.runner.steps == [[(0, 64)], [(0, 64)]]


def test_scheduler_gives_a_long_prompt_what_shorter_ones_leave() -> None:
    """A step that shorter prompts could fill goes to the long one if no blocks are left for them."""
    bench = Bench(config_of(max_batch_tokens=64, max_batch_sequences=8, num_blocks=32, max_model_len=128))
    bench.add(request("a" * 124, max_tokens=1))
    bench.step()
    bench.add(request("b" * 30, max_tokens=1))
    bench.add(request("c" * 30, max_tokens=1))
    bench.run()
    assert {serial: len(bench.outputs[serial, 0]) for serial in range(3)} == {0: 1, 1: 1, 2: 1}


def test_scheduler_computes_prompts_of_like_length_one_after_another() -> None:
    """Halves would delay the first of them, without bringing the second one forward."""
    bench = Bench(config_of(max_batch_tokens=64, max_batch_sequences=8, num_blocks=400, max_model_len=400))
    for prompt in ("a" * 100, "b" * 90):
        bench.add(request(prompt, max_tokens=1))
    bench.step()
    assert shares(bench) == {0: 64}
    bench.step()
    assert shares(bench) == {0: 36, 1: 28}
