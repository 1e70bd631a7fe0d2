"""The progress of prompts, as a core reports it: the tokens so far after the parts of a prompt, if it is requested."""

from __future__ import annotations

from typing import Any

import pytest

from service.engine.core.engine_core import SampledToken
from service.engine.core.step import Step
from service.generation.errors import SequenceError
from service.generation.outputs.output import GenerationOutput, PrefillProgress
from service.generation.requests.request import GenerationRequest
from tests.engine.fakes import Bench, Clock, config_of, request
from tests.engine.paged_runner import PagedRunner

INTERVAL_S = 0.1
PROMPT = "0123456789" * 2


def asked(prompt: str = PROMPT, **fields: Any) -> GenerationRequest:
    return request(prompt, reports_progress=True, **fields)


def progress_of(bench: Bench, seconds: float) -> dict[int, list[PrefillProgress]]:
    """Run until the bench is idle, `seconds` a step, and return the progress of each request before its tokens."""
    found: dict[int, list[PrefillProgress]] = {}
    with_tokens = set()
    while bench.core.has_work:
        bench.core.step()
        for serial, output in bench.core.report().outputs:
            if isinstance(output, GenerationOutput):
                with_tokens.add(serial)
            else:
                assert isinstance(output, PrefillProgress)
                assert serial not in with_tokens
                found.setdefault(serial, []).append(output)
        bench.clock.now += seconds
    bench.assert_idle()
    return found


def counts(progress: list[PrefillProgress]) -> list[int]:
    return [each.num_computed_tokens for each in progress]


@pytest.mark.parametrize("num_states", [0, 8])
def test_each_part_of_a_prompt_is_reported(num_states: int) -> None:
    """The counts are those of the parts; the last is the prompt's length, and is reported before the first token.

    It is the same for a model with recurrent states.
    """
    bench = Bench(config_of(max_batch_tokens=8, max_batch_sequences=4), num_states=num_states)
    bench.add(asked(n=2))
    found = progress_of(bench, INTERVAL_S)[0]
    assert counts(found) == [8, 16, 20]
    assert [each.num_cached_tokens for each in found] == [0, 0, 0]
    assert [round(each.now - each.scheduled, 3) for each in found] == [0, INTERVAL_S, 2 * INTERVAL_S]


def test_parts_that_follow_each_other_faster_are_reported_together() -> None:
    """Between the first part and the last one there is one report per interval."""
    bench = Bench(config_of(max_batch_tokens=2, max_batch_sequences=1))
    bench.add(asked())
    assert counts(progress_of(bench, INTERVAL_S / 4)[0]) == [2, 10, 18, 20]


def test_cached_tokens_are_counted_from_the_start() -> None:
    """A prompt whose beginning is cached starts with it."""
    bench = Bench(config_of(max_batch_tokens=4, max_batch_sequences=4))
    bench.add(request(PROMPT))
    bench.run()
    bench.add(asked(PROMPT + "abcdef"))
    found = progress_of(bench, INTERVAL_S)[1]
    assert counts(found) == [24, 26]
    assert {each.num_cached_tokens for each in found} == {20}


def test_progress_of_a_preempted_prompt_goes_back() -> None:
    """A prompt that loses its blocks is counted from its start again, and reaches its length."""
    bench = Bench(config_of(max_batch_tokens=8, max_batch_sequences=1, prefix_caching=False))
    bench.add(asked(is_batch=True))
    bench.core.step()
    bench.core.step()
    bench.clock.now += INTERVAL_S
    bench.add(request("another", max_tokens=1))
    assert counts(progress_of(bench, INTERVAL_S)[0]) == [8, 8, 16, 20]
    assert bench.groups[0].sequences[0].num_preemptions == 1


class TimedRunner(PagedRunner):
    """Takes a fixed number of seconds per token."""

    def __init__(self, clock: Clock, token_s: float) -> None:
        super().__init__()
        self._clock, self._token_s = clock, token_s

    def run(self, step: Step) -> list[SampledToken | SequenceError | None]:
        self._clock.now += self._token_s * step.num_tokens
        return super().run(step)


@pytest.mark.parametrize(
    ("token_s", "known", "unknown"),
    [(0.01, [128, 128, 128, 128, 88], [128, 128, 128, 128, 88]), (0.00125, [384, 216], [128, 384, 88])],
)
def test_prompt_with_progress_is_computed_in_parts_of_half_a_second(
    token_s: float, known: list[int], unknown: list[int]
) -> None:
    """A part has at least 128 tokens, and just these until the speed is known. Other prompts are not divided."""
    clock = Clock()
    sizes = {"max_batch_tokens": 1024, "max_prefill_chunk": 1024, "max_model_len": 2048, "num_blocks": 1024}
    for is_first, expected in ((False, known), (True, unknown)):
        bench = Bench(config_of(**sizes, max_batch_sequences=4), clock=clock, runner=TimedRunner(clock, token_s))
        if not is_first:
            bench.add(request("a" * 600, max_tokens=1))
            bench.run()
            assert bench.runner.steps == [[(0, 600)]]
        bench.add(asked("b" * 600, max_tokens=1))
        found = progress_of(bench, 0)
        assert [num for step in bench.runner.steps[not is_first :] for _, num in step] == expected
        assert counts(found[0 if is_first else 1])[-1] == 600


def test_nothing_is_reported_without_a_request_for_it() -> None:
    """A request that doesn't ask for progress has outputs only, also in a step with one that does."""
    bench = Bench(config_of(max_batch_tokens=8, max_batch_sequences=4))
    bench.add(request(PROMPT))
    bench.add(asked())
    assert list(progress_of(bench, INTERVAL_S)) == [1]
