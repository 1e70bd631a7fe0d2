"""The digest of a request, which receipts and the identities of streams have."""

from __future__ import annotations

import random
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from service.answering.stream_identity import request_digest
from service.engine.tokens.watermark import Watermark
from service.generation.formats.constraint import Constraint, Grammar
from service.generation.prompts.image import PromptImage
from service.generation.requests.parameters import LogprobsOptions, SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest
from service.output.tokens.watermark import WatermarkDetector
from service.prompting.preparation import PreparedAnswer
from tests.engine.byte_tokenizer import ByteTokenizer


class Model:
    """The part of a served model that the digest reads."""

    def __init__(self, key: str = "1") -> None:
        self.watermark = WatermarkDetector(ByteTokenizer(), Watermark(key=key))


def digest_of(*requests: GenerationRequest, model: Any = Model()) -> bytes:  # noqa: B008  it is never changed
    prepared = PreparedAnswer(requests, (), requests[0].sampling, requests[0].stopping)
    return request_digest(model, prepared)


REQUEST = GenerationRequest(
    "id", [5, 6, 7], SamplingParams(seed=3, logit_bias={4: 1.0, 2: 3.0}), StopParams(max_tokens=9, stop=("x", "y"))
)


def test_digest_depends_on_neither_ids_nor_the_order_of_maps_nor_the_caller() -> None:
    other = replace(
        REQUEST,
        request_id="other",
        caller_id="key",
        priority=3,
        cache_salt="salt",
        deadline=1.0,
        sampling=replace(REQUEST.sampling, logit_bias={2: 3.0, 4: 1.0}),
    )
    assert digest_of(REQUEST) == digest_of(other)


@pytest.mark.parametrize(
    "changed",
    [
        {"stopping": StopParams(max_tokens=9, stop=("y", "x"))},
        {"n": 2},
        {"logprobs": LogprobsOptions()},
        {"constraint": Constraint(Grammar("root ::= x", "grammar"))},
        {"adapter": "tone"},
        {"skip_special_tokens": False},
        {"images": [PromptImage(0, 1, b"1" * 32, np.zeros((3, 1, 1), np.uint8))]},
    ],
    ids=str,
)
def test_each_changed_value_changes_the_digest(changed: dict[str, Any]) -> None:
    assert digest_of(REQUEST) != digest_of(replace(REQUEST, **changed))


def test_other_image_of_the_same_size_changes_the_digest() -> None:
    """The tokens of both prompts are the same placeholders."""
    first, second = (
        replace(REQUEST, images=[PromptImage(0, 1, bytes([value]) * 32, np.zeros((3, 1, 1), np.uint8))])
        for value in (1, 2)
    )
    assert digest_of(first) != digest_of(second)


def test_prompts_of_equal_tokens_in_other_groups_have_other_digests() -> None:
    first = digest_of(replace(REQUEST, prompt_token_ids=[1, 2]), replace(REQUEST, prompt_token_ids=[3]))
    second = digest_of(replace(REQUEST, prompt_token_ids=[1]), replace(REQUEST, prompt_token_ids=[2, 3]))
    assert first != second


def test_watermark_key_changes_the_digest_of_watermarked_answers_only() -> None:
    marked = replace(REQUEST, sampling=replace(REQUEST.sampling, watermark=True))
    assert digest_of(REQUEST, model=Model("1")) == digest_of(REQUEST, model=Model("2"))
    assert digest_of(marked, model=Model("1")) != digest_of(marked, model=Model("2"))


def test_each_of_1000_tampered_requests_has_another_digest() -> None:
    """A token or a number of the parameters is changed."""
    rng = random.Random(11)
    known = digest_of(REQUEST)
    numbers = [each.name for each in fields(SamplingParams) if isinstance(getattr(REQUEST.sampling, each.name), float)]
    for _ in range(1000):
        tokens = list(REQUEST.prompt_token_ids)
        sampling = REQUEST.sampling
        if rng.random() < 0.5:
            tokens[rng.randrange(3)] += rng.randint(1, 1000)
        else:
            name = rng.choice(numbers)
            sampling = replace(sampling, **{name: getattr(sampling, name) + rng.uniform(0.001, 0.5)})
        assert digest_of(replace(REQUEST, prompt_token_ids=tokens, sampling=sampling)) != known
