"""An engine on the native backend gives a request the same bits in every batch and with any number of threads."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.engine.interface.messages import Abort
from service.generation.formats.constraint import Constraint, Grammar
from service.generation.requests.parameters import LogprobsOptions, SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest
from tests.engine.folders.tiny_models import tokens
from tests.native.stepped_engine import SAID, Engine

GRAMMARS = (r"start: /[a-z]{3,9}( [a-z]{2,8}){2,5}/", 'start: "[" /[0-9]+/ ("," /[0-9]+/)~3..9 "]"')


@cache
def roomy(dtype: str, kv_cache_dtype: str) -> Engine:
    """Return an engine in which nothing is cached, chunked or preempted, with one thread."""
    sizes: dict[str, Any] = {"num_threads": 1, "num_blocks": 256, "max_model_len": 200}
    return Engine(dtype, prefix_caching=False, kv_cache_dtype=kv_cache_dtype, **sizes)


def alone(dtype: str, kv_cache_dtype: str, request: GenerationRequest) -> dict[int, dict[str, Any]]:
    engine = roomy(dtype, kv_cache_dtype)
    engine.add(0, request)
    while engine.core.has_work:
        engine.step()
    return engine.answers(0)


@st.composite
def requests(draw: st.DrawFn) -> GenerationRequest:
    """Draw a request with any parameters; prompts have common prefixes."""
    shared, own = draw(st.sampled_from([0, 0, 33, 70])), draw(st.integers(10, 60))
    one_of = st.sampled_from
    return GenerationRequest(
        "r",
        tokens(shared) + tokens(own, seed=draw(st.integers(1, 99))),
        SamplingParams(
            temperature=draw(one_of([2.0, 2.0, 1.0, 0.0])),
            top_k=draw(one_of([None, None, 5, 40, 900])),
            top_p=draw(one_of([1.0, 1.0, 0.8])),
            min_p=draw(one_of([0.0, 0.0, 0.02])),
            typical_p=draw(one_of([1.0, 1.0, 0.8])),
            repetition_penalty=draw(one_of([1.0, 1.0, 1.3])),
            frequency_penalty=draw(one_of([0.0, 0.0, 0.5])),
            presence_penalty=draw(one_of([0.0, 0.0, -1.0])),
            logit_bias=draw(one_of([{}, {}, {97: 3.0, 98: -100.0}])),
            seed=draw(st.integers(0, 2**64 - 1)),
            watermark=draw(one_of([False, False, False, True])),
        ),
        StopParams(draw(one_of([50, 50, 30, 1])), ignore_eos=draw(one_of([True, True, False]))),
        n=draw(one_of([1, 1, 1, 2, 3])),
        logprobs=draw(one_of([None, LogprobsOptions(0), LogprobsOptions(3), LogprobsOptions(20)])),
        prompt_logprobs=draw(one_of([None, None, None, LogprobsOptions(2)])),
        constraint=draw(one_of([None, None, *(Constraint(Grammar(text, "regex")) for text in GRAMMARS)])),
        priority=draw(st.integers(0, 1)),
    )


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "kv_cache_dtype"), [("float32", "auto"), ("bfloat16", "auto"), ("bfloat16", "int8")])
def test_an_engine_says_the_same_alone_and_in_any_company(dtype: str, kv_cache_dtype: str) -> None:
    """Tokens, texts, logprobs and finish reasons are equal with preemptions, chunked prompts and cancelled requests."""
    num_preemptions = num_hits = 0

    @settings(max_examples=15)
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        nonlocal num_preemptions, num_hits
        prefix_caching = data.draw(st.booleans(), "prefix_caching")
        engine = Engine(
            dtype,
            num_blocks=data.draw(st.sampled_from([13, 13, 13, 40]), "num_blocks"),
            max_model_len=200,
            max_batch_tokens=data.draw(st.integers(8, 256), "max_batch_tokens"),
            max_batch_sequences=data.draw(st.integers(2, 8), "max_batch_sequences"),
            max_prefill_chunk=data.draw(st.integers(1, 64), "max_prefill_chunk"),
            prefix_caching=prefix_caching,
            kv_cache_dtype=kv_cache_dtype,
            num_threads=data.draw(st.sampled_from([1, 1, 2]), "num_threads"),
        )
        wanted = data.draw(st.lists(requests(), min_size=5, max_size=8), "requests")
        left = set()
        for serial, request in enumerate(wanted):
            engine.add(serial, request)
            for _ in range(data.draw(st.integers(0, 6), "steps")):
                engine.step()
            if data.draw(st.integers(0, 5), "leaves") == 5:
                who = data.draw(st.integers(0, serial), "who")
                left.add(who)
                engine.core.receive(Abort(who))
        while engine.core.has_work:
            engine.step()
        stats = engine.core.report().stats[-1]
        assert stats is not None
        num_preemptions += stats.num_preemptions
        num_hits += stats.num_prefix_hit_tokens if prefix_caching else 0
        for serial, request in enumerate(wanted):
            expected, said = alone(dtype, kv_cache_dtype, request), engine.answers(serial)
            if serial in left:
                said = {index: {name: each[name] for name in SAID} for index, each in said.items()}
                expected = {
                    index: {name: expected[index][name][: len(values)] for name, values in each.items()}
                    for index, each in said.items()
                }
            assert said == expected

    run()
    assert min(num_preemptions, num_hits) > 0, "the mixes are too easy"
