"""Sampling and stop parameters are passed to the engine."""

from __future__ import annotations

import pytest

from service.generation.errors import InvalidRequest
from service.generation.prompts.conversation import RawText, RawTokens
from service.generation.requests.answer_request import AnswerRequest
from service.generation.requests.parameters import SamplingParams, StopParams
from service.prompting.preparation import Preparation
from tests.service.preparation.fakes import TOKENIZER, chat, request_of


def raw(*prompts: str | list[int], **given: object) -> AnswerRequest:
    made = tuple(
        RawText(each, f"prompts[{index}]") if isinstance(each, str) else RawTokens(each, f"prompts[{index}]")
        for index, each in enumerate(prompts)
    )
    return AnswerRequest("tiny", made, "prompts", **given)  # type: ignore[arg-type]  # any field


async def test_parameters_are_passed_on(preparation: Preparation) -> None:
    """Every parameter reaches the engine and is echoed."""
    sampling = SamplingParams(0.5, 0.4, 3, 0.2, 0.1, -1.0, 1.5, 2.0, 2**64 - 1, {5: -100.0}, watermark=True)
    stopping = StopParams(9, 2, ("a", "b"), (3,), ignore_eos=True)
    prepared = await preparation.prepare(chat(sampling=sampling, stopping=stopping), "r")
    generation = request_of(prepared)
    assert generation.sampling == prepared.sampling == sampling
    assert generation.stopping == prepared.stopping == stopping


async def test_seed_is_drawn_once_and_echoed(preparation: Preparation) -> None:
    """A request without a seed gets one that can be sent again; other parameters stay off."""
    prepared = [await preparation.prepare(chat(), "r") for _ in range(20)]
    assert len({each.sampling.seed for each in prepared}) == 20
    for each in prepared:
        assert request_of(each).sampling == each.sampling == SamplingParams(seed=each.sampling.seed)


async def test_prompts_without_a_seed_get_consecutive_seeds(preparation: Preparation) -> None:
    """The same prompt twice gets two answers; a given seed applies to all prompts."""
    drawn = await preparation.prepare(raw("a", "a", "a"), "r")
    first = drawn.sampling.seed
    assert first is not None
    assert [each.sampling.seed for each in drawn.requests] == [(first + index) % 2**63 for index in range(3)]
    given = await preparation.prepare(raw("a", "a", sampling=SamplingParams(seed=7)), "r")
    assert [each.sampling.seed for each in given.requests] == [7, 7]


@pytest.mark.parametrize(("max_tokens", "resolved"), [(None, 4093), (10, 10), (5000, 4093)])
async def test_max_tokens_is_limited_by_the_context(
    preparation: Preparation, max_tokens: int | None, resolved: int
) -> None:
    """Without a limit, or with too large a one, the context is the limit."""
    prepared = await preparation.prepare(raw([1, 2, 3], stopping=StopParams(max_tokens=max_tokens)), "r")
    assert request_of(prepared).stopping.max_tokens == prepared.stopping.max_tokens == resolved


async def test_unknown_tokens_are_rejected_by_their_path(preparation: Preparation) -> None:
    """A token outside the vocabulary is the client's error."""
    size = TOKENIZER.vocab_size
    with pytest.raises(InvalidRequest, match=f"{size} tokens") as caught:
        await preparation.prepare(chat(sampling=SamplingParams(logit_bias={size - 1: 1, size: 1})), "r")
    assert caught.value.field == f"sampling.logit_bias[{size}]"
    with pytest.raises(InvalidRequest) as caught:
        await preparation.prepare(chat(sampling=SamplingParams(allowed_token_ids=(1, size))), "r")
    assert caught.value.field == "sampling.allowed_token_ids[1]"
    with pytest.raises(InvalidRequest) as caught:
        await preparation.prepare(chat(stopping=StopParams(stop_token_ids=(1, size))), "r")
    assert caught.value.field == "stopping.stop_token_ids[1]"
    with pytest.raises(InvalidRequest) as caught:
        await preparation.prepare(raw("a", [1, size - 1, size]), "r")
    assert caught.value.field == "prompts[1].token_ids.ids[2]"
