"""check_request: what the door refuses, and under which field's name."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from service.engine.admission import check_request

from service.generation.errors import InvalidRequest, PromptTooLong
from service.generation.parameters import SamplingParams, StopParams
from service.generation.request import GenerationRequest
from tests.engine.fakes import request


def check(wanted: GenerationRequest) -> None:
    check_request(wanted, vocab_size=258, max_model_len=16, max_choices=4)


@pytest.mark.parametrize(
    ("field", "wanted"),
    [
        ("prompt", request([])),
        ("prompt", request([1, -1])),
        ("prompt", request([258, 1])),
        ("n", request(n=0)),
        ("n", request(n=5)),
        ("logprobs", request(logprobs=-1)),
        ("logprobs", request(logprobs=21)),
        ("max_tokens", request(max_tokens=0)),
        ("min_tokens", request(min_tokens=-1)),
        ("min_tokens", request(min_tokens=3, max_tokens=2)),
        ("stop", request(stop=["a", ""])),
    ],
)
def test_check_request_names_the_field_at_fault(field: str, wanted: GenerationRequest) -> None:
    """A value that can't be served is refused under its own name."""
    with pytest.raises(InvalidRequest) as caught:
        check(wanted)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("temperature", [-0.1, math.nan, math.inf]),
        ("top_k", [-1]),
        ("top_p", [0, 1.1, math.nan]),
        ("min_p", [-0.1, 1.1, math.nan]),
        ("typical_p", [0, 1.1, math.nan]),
        ("repetition_penalty", [0, -1, math.nan, math.inf]),
        ("frequency_penalty", [math.nan, math.inf]),
        ("presence_penalty", [math.nan, -math.inf]),
        ("logit_bias", [{258: 1.0}, {-1: 1.0}, {1: math.nan}, {1: math.inf}]),
    ],
)
def test_check_request_refuses_sampling_that_would_break_a_step(field: str, values: list[object]) -> None:
    """A number that would make the distribution meaningless never reaches the batch of the others."""
    for value in values:
        sampling = SamplingParams(**{field: value})  # type: ignore[arg-type]
        with pytest.raises(InvalidRequest) as caught:
            check(replace(request(), sampling=sampling))
        assert caught.value.field == field


@pytest.mark.parametrize(
    "wanted",
    [
        request([0, 257]),
        request("x" * 15, max_tokens=None),
        request("x" * 15, max_tokens=1000),
        request(n=4, logprobs=20, stop=["a"]),
        request(min_tokens=3, max_tokens=None),
        replace(request(), sampling=SamplingParams(temperature=0, logit_bias={257: -math.inf, 0: 100.0})),
        replace(request(), stopping=StopParams(min_tokens=8, max_tokens=8)),
    ],
)
def test_check_request_lets_good_requests_pass(wanted: GenerationRequest) -> None:
    """Bounds are inclusive, and an answer longer than the context is cut rather than refused."""
    check(wanted)


def test_check_request_counts_a_prompt_that_is_too_long() -> None:
    """A prompt must leave room for one token; the error has both numbers."""
    with pytest.raises(PromptTooLong) as caught:
        check(request("x" * 16))
    assert (caught.value.field, caught.value.num_prompt_tokens, caught.value.max_prompt_tokens) == ("prompt", 16, 15)
