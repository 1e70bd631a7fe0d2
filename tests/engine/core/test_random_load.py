"""The core under random load."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.engine.core.engine_core import SampledToken
from service.engine.core.sequences.choice_seed import choice_seed
from service.engine.core.sequences.sequence import SequenceGroup
from service.engine.core.step import Step
from service.generation.errors import DeadlineExceeded, SequenceError
from service.generation.prompts.image import PromptImage
from service.generation.requests.request import GenerationRequest
from service.generation.service_level import BATCH, ServiceLevel
from tests.engine.fakes import Bench, config_of, request
from tests.engine.paged_runner import sums

NO_PIXELS = np.zeros((3, 0, 0), np.uint8)
PREFIXES = ["", "system: be brief. ", "system: be brief. user: ", "once upon a time "]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("prefix_caching", [True, False])
def test_load_ends_with_every_block_free(seed: int, prefix_caching: bool) -> None:  # noqa: FBT001
    """Of 500 requests on a cache for three, each ends once with the tokens it has alone, and all blocks are free."""
    draw = random.Random(seed)
    bench = Bench(
        config_of(
            num_blocks=40,
            max_model_len=96,
            max_batch_tokens=48,
            max_batch_sequences=8,
            max_prefill_chunk=16,
            prefix_caching=prefix_caching,
        )
    )
    wanted: dict[int, GenerationRequest] = {}
    live: dict[int, SequenceGroup] = {}
    aborted: set[int] = set()
    while len(wanted) < 500 or bench.core.has_work:
        for _ in range(draw.randrange(4)):
            if len(wanted) == 500:
                break
            prompt = draw.choice(PREFIXES) + "".join(draw.choices("ab", k=draw.randint(1, 50)))
            one = request(
                prompt,
                n=draw.choice([1, 1, 1, 2, 3]),
                seed=draw.randrange(100),
                max_tokens=draw.choice([None, 1, 2, 10, 20]),
                priority=draw.randrange(3),
                caller_id=draw.choice("aaab"),
                service_level=draw.choice([BATCH, BATCH, ServiceLevel(30.0, 3.0), ServiceLevel(None, 0.5)]),
                deadline=draw.choice([None, None, None, bench.clock.now + draw.randint(1, 60)]),
                ignore_eos=True,
            )
            group = bench.add(one)
            wanted[group.serial], live[group.serial] = one, group
        if live and draw.random() < 0.1:
            group = live.pop(draw.choice(list(live)))
            if not group.is_finished:
                aborted.add(group.serial)
            bench.core.abort(group.serial)
        bench.step()
        bench.clock.now += 1
    bench.assert_idle()
    stats = bench.core.stats()
    assert stats.num_preemptions > 0
    assert (stats.num_prefix_hit_tokens > 0) == prefix_caching
    ends = {"aborted": 0, "deadline": 0, "finished": 0}
    for serial, one in wanted.items():
        errors = bench.errors.get(serial, [])
        for index in range(one.n):
            tokens = bench.tokens(serial, index)
            assert one.sampling.seed is not None
            assert tokens == sums(one.prompt_token_ids, len(tokens), choice_seed(one.sampling.seed, index))
            outputs = bench.outputs.get((serial, index), [])
            num_last = sum(output.finish_reason is not None for output in outputs)
            if serial in aborted:
                assert errors == []
                ends["aborted"] += 1
            elif errors:
                assert [type(error) for error in errors] == [DeadlineExceeded]
                ends["deadline"] += 1
            else:
                limit = 96 - len(one.prompt_token_ids)
                assert len(tokens) == min(limit, one.stopping.max_tokens or limit)
                assert num_last == 1
                assert outputs[-1].finish_reason is not None
                ends["finished"] += 1
    assert min(ends.values()) > 0, "the load does not cover every way to end"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_images_above_the_budget_take_no_tokens_of_others(seed: int) -> None:
    """A step computes an image whole, even above its budget, and at least one token of each of its sequences."""
    draw = random.Random(seed)
    bench = Bench(
        config_of(
            num_blocks=300,
            max_model_len=400,
            max_batch_tokens=draw.choice([32, 64, 128]),
            max_batch_sequences=draw.choice([2, 4, 8]),
            max_prefill_chunk=draw.choice([16, 32, 64]),
        )
    )
    compute = bench.runner.run

    def timed(step: Step) -> list[SampledToken | SequenceError | None]:
        assert all(item.num_new_tokens > 0 for item in step.items)
        bench.clock.now += 0.004 + 0.0003 * step.num_decodes + 0.0005 * step.num_prompt_tokens
        return compute(step)

    bench.runner.run = timed  # type: ignore[method-assign]
    wanted: list[GenerationRequest] = []
    while len(wanted) < 40 or bench.core.has_work:
        for _ in range(draw.randrange(4) if len(wanted) < 40 else 0):
            prompt = "".join(draw.choices("ab", k=draw.choice([20, 60, 200, 320])))
            starts = range(draw.randrange(20), len(prompt) - 50, 60) if draw.random() < 0.6 else ()
            one = request(
                prompt,
                images=tuple(PromptImage(start, start + 50, b"", NO_PIXELS) for start in starts),
                max_tokens=draw.choice([1, 8, 20]),
                priority=draw.choice([0, 0, 1]),
                caller_id=draw.choice("aaabc"),
                service_level=draw.choice([BATCH, BATCH, ServiceLevel(1.0, 0.05), ServiceLevel(None, 0.05)]),
                ignore_eos=True,
            )
            wanted.append(one)
            bench.add(one)
        bench.step()
    bench.assert_idle()
    for serial, one in enumerate(wanted):
        assert bench.tokens(serial) == sums(one.prompt_token_ids, one.stopping.max_tokens or 0, choice_seed(0, 0))


@pytest.mark.slow
@settings(max_examples=60)
@given(data=st.data())
def test_load_does_not_change_answers(data: st.DataObject) -> None:
    """The tokens do not depend on batching, chunked prefill, caching or preemption."""
    num_blocks = data.draw(st.integers(10, 40), "num_blocks")
    bench = Bench(
        config_of(
            num_blocks=num_blocks,
            max_model_len=40,
            max_batch_tokens=data.draw(st.integers(4, 64), "max_batch_tokens"),
            max_batch_sequences=data.draw(st.integers(1, 4), "max_batch_sequences"),
            max_prefill_chunk=data.draw(st.integers(1, 64), "max_prefill_chunk"),
            prefix_caching=data.draw(st.booleans(), "prefix_caching"),
        )
    )
    prompts = data.draw(st.lists(st.text("ab", min_size=1, max_size=30), min_size=1, max_size=8), "prompts")
    for prompt in prompts:
        bench.add(request(prompt, max_tokens=9, n=data.draw(st.integers(1, 2), "n"), ignore_eos=True))
        for _ in range(data.draw(st.integers(0, 5), "steps")):
            bench.step()
    bench.run()
    bench.assert_idle()
    for (serial, index), outputs in bench.outputs.items():
        assert bench.tokens(serial, index) == sums(prompts[serial].encode(), 9, choice_seed(0, index))
        assert [output.finish_reason is not None for output in outputs] == [False] * 8 + [True]
