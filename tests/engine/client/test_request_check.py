"""check_request: the requests that are rejected before they are queued, and the fields that the errors name."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from service.engine.client.request_check import check_limit, check_request
from service.generation.errors import InvalidRequest, PromptTooLong, UnsupportedConstraint
from service.generation.formats.constraint import Constraint, Grammar
from service.generation.requests.parameters import LogprobsOptions, Range, Ranges, SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest
from tests.engine.fakes import request

RANGES = {
    "sampling.temperature": Range(at_least=0, at_most=2),
    "sampling.top_k": Range(at_least=1),
    "sampling.top_p": Range(above=0, at_most=1),
    "sampling.frequency_penalty": Range(at_least=-2, at_most=2),
    "sampling.logit_bias": Range(at_least=-100, at_most=100),
    "stopping.max_tokens": Range(at_least=1),
    "logprobs.top_logprobs": Range(at_least=0, at_most=20),
    "prompt_logprobs.top_logprobs": Range(at_least=0, at_most=20),
    "no.such_parameter": Range(at_most=0),
}


def check(wanted: GenerationRequest, ranges: Ranges = RANGES) -> None:
    check_request(wanted, ranges=ranges, vocab_size=258, max_model_len=16, max_choices=4)


@pytest.mark.parametrize(
    ("field", "wanted"),
    [
        ("prompt", request([])),
        ("inputs[3]", request([], prompt_field="inputs[3]")),
        ("prompt", request([1, -1])),
        ("prompt", request([258, 1])),
        ("n", request(n=0)),
        ("n", request(n=5)),
        ("logprobs.top_logprobs", request(logprobs=LogprobsOptions(-1))),
        ("logprobs.top_logprobs", request(logprobs=LogprobsOptions(21))),
        ("prompt_logprobs.top_logprobs", request(prompt_logprobs=LogprobsOptions(21))),
        ("stopping.max_tokens", request(max_tokens=0)),
        ("stopping.min_tokens", request(min_tokens=3, max_tokens=2)),
        ("stopping.stop", request(stop=["a", ""])),
    ],
)
def test_check_request_names_the_invalid_field(field: str, wanted: GenerationRequest) -> None:
    """An invalid value is rejected with its path."""
    with pytest.raises(InvalidRequest) as caught:
        check(wanted)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("temperature", [-0.1, 2.1, math.nan, math.inf]),
        ("top_k", [0, -1]),
        ("top_p", [0, 1.1, math.nan]),
        ("frequency_penalty", [math.nan, math.inf, -2.5]),
        ("logit_bias", [{1: 101}, {1: math.nan}, {1: -math.inf}]),
    ],
)
def test_check_request_rejects_values_out_of_range(name: str, values: list[object]) -> None:
    """A number outside its parameter's range is rejected, and the message has the range."""
    for value in values:
        sampling = SamplingParams(**{name: value})  # type: ignore[arg-type]
        with pytest.raises(InvalidRequest, match=f"{name} must be at least|{name} must be above") as caught:
            check(replace(request(), sampling=sampling))
        assert caught.value.field == f"sampling.{name}"


@pytest.mark.parametrize("bias", [{258: 1.0}, {-1: 1.0}, {1: math.nan}, {1: math.inf}])
def test_check_request_rejects_a_bias_that_would_break_a_step(bias: dict[int, float]) -> None:
    """Even without a range, a bias for an unknown token or a bias that invalidates all others is rejected."""
    with pytest.raises(InvalidRequest) as caught:
        check(replace(request(), sampling=SamplingParams(logit_bias=bias)), ranges={})
    assert caught.value.field == "sampling.logit_bias"


def test_check_request_states_the_range() -> None:
    """The message has the parameter, its range and the given value."""
    with pytest.raises(InvalidRequest, match=r"^temperature must be at least 0 and at most 2, not 3$"):
        check(replace(request(), sampling=SamplingParams(temperature=3)))


@pytest.mark.parametrize(
    "wanted",
    [
        request([0, 257]),
        request("x" * 15, max_tokens=None),
        request("x" * 15, max_tokens=1000),
        request(n=4, logprobs=LogprobsOptions(20), stop=["a"]),
        request(min_tokens=3, max_tokens=None),
        replace(request(), sampling=SamplingParams(temperature=0, logit_bias={257: -100, 0: 100.0})),
        replace(request(), stopping=StopParams(min_tokens=8, max_tokens=8)),
    ],
)
def test_check_request_accepts_valid_requests(wanted: GenerationRequest) -> None:
    """Bounds are inclusive, and a max_tokens above the context is accepted."""
    check(wanted)


def test_check_request_counts_a_prompt_that_is_too_long() -> None:
    """A prompt must leave capacity for one token, and the error has both numbers."""
    with pytest.raises(PromptTooLong) as caught:
        check(request("x" * 16))
    assert (caught.value.field, caught.value.num_prompt_tokens, caught.value.max_prompt_tokens) == ("prompt", 16, 15)


@pytest.mark.parametrize(
    ("num_prompt_tokens", "max_tokens", "num_tokens", "error"),
    [
        (4, 8, 8, None),
        (4, None, 12, None),
        (4, 7, 8, InvalidRequest("stopping.max_tokens", "must be at least 8 for this format (got 7)")),
        (4, 12, 13, PromptTooLong("prompt", 4, 3)),
        (4, 1, 15, PromptTooLong("prompt", 4, 1)),
        (1, 1, 16, UnsupportedConstraint("schema", "the shortest answer that matches has 16 tokens")),
    ],
)
def test_limit_below_the_shortest_answer_is_rejected(
    num_prompt_tokens: int, max_tokens: int | None, num_tokens: int, error: InvalidRequest | None
) -> None:
    """The error has the smallest sufficient limit, or the longest prompt that leaves capacity in a context of 16."""
    constraint = Constraint(Grammar("start: /x/", "schema"))
    wanted = request([1] * num_prompt_tokens, max_tokens=max_tokens, constraint=constraint)
    if error is None:
        check_limit(wanted, num_tokens, max_model_len=16)
        return
    with pytest.raises(type(error)) as caught:
        check_limit(wanted, num_tokens, max_model_len=16)
    assert caught.value.field == error.field
    assert str(caught.value).startswith(str(error))
