"""The progress of prompts, as a core reports it: the tokens so far after the parts of a prompt, if it is requested."""

from __future__ import annotations

from typing import Any

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


def test_each_part_of_a_prompt_is_reported() -> None:
    """The counts are those of the parts; the last is the prompt's length, and is reported before the first token."""
    bench = Bench(config_of(max_batch_tokens=8, max_batch_sequences=4))
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
    """Takes a hundredth of a second per token."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def run(self, step: Step) -> list[SampledToken | SequenceError | None]:
        self._clock.now += 0.01 * step.num_tokens
        return super().run(step)


def test_prompt_with_progress_is_computed_in_parts_of_half_a_second() -> None:
    """Once the speed is known, a part has no more tokens than take half a second, but 128; others are not divided."""
    clock = Clock()
    sizes = {"max_batch_tokens": 1024, "max_prefill_chunk": 1024, "max_model_len": 2048, "num_blocks": 1024}
    bench = Bench(config_of(**sizes, max_batch_sequences=4), clock=clock, runner=TimedRunner(clock))
    for wanted in (request("a" * 600, max_tokens=1), asked("b" * 600, max_tokens=1)):
        bench.add(wanted)
        found = progress_of(bench, 0)
    assert counts(found[1]) == [128, 256, 384, 512, 600]
    assert bench.runner.steps == [[(0, 600)], *([(1, num)] for num in (128, 128, 128, 128, 88))]


def test_nothing_is_reported_without_a_request_for_it() -> None:
    """A request that doesn't ask for progress has outputs only, also in a step with one that does."""
    bench = Bench(config_of(max_batch_tokens=8, max_batch_sequences=4))
    bench.add(request(PROMPT))
    bench.add(asked())
    assert list(progress_of(bench, INTERVAL_S)) == [1]
