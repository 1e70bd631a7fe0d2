"""Text generations: requests as values."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import json_format
from sluice.v1 import sampling_pb2, text_generation_pb2

from service.contract.generations.text_generation import to_answer_request
from service.generation.prompts.conversation import RawText
from service.generation.requests.answer_request import AnswerRequest
from service.generation.requests.parameters import SamplingParams, StopParams
from tests.service.contract.fakes import RESUMED, resume_options


def test_every_field_is_converted() -> None:
    """Every field of a request is a value of the internal request, except fields for the answer only."""
    fields: dict[str, Any] = {
        "model": "m",
        "modelVersion": "3",
        "textInput": "hi",
        "doSample": True,
        "perfStat": True,
        "sampling": {"temperature": 0.5, "seed": "7"},
        "stopping": {"maxTokens": 9},
        "serving": {
            "priority": -3,
            "cacheSalt": "s",
            "deployment": "d",
            "errorBehavior": "ERROR_BEHAVIOR_TRUNCATE",
            "separateTokens": True,
        },
    }
    request = json_format.ParseDict(fields, text_generation_pb2.GenerateTextRequest())
    request.resume.CopyFrom(resume_options(RESUMED))
    assert {each.name for each, _ in request.ListFields()} == {each.name for each in request.DESCRIPTOR.fields}
    assert to_answer_request(request) == AnswerRequest(
        model="m",
        model_version="3",
        prompts=(RawText("hi", "text_input"),),
        prompts_field="text_input",
        deployment="d",
        sampling=SamplingParams(temperature=0.5, seed=7),
        given=frozenset({"temperature", "seed"}),
        stopping=StopParams(max_tokens=9),
        priority=-3,
        cache_salt="s",
        truncates=True,
        separates_tokens=True,
        resume=RESUMED,
    )


def test_omitted_fields_have_their_defaults() -> None:
    """The defaults are twenty tokens and greedy decoding."""
    request = text_generation_pb2.GenerateTextRequest(model="m", text_input="hi")
    assert to_answer_request(request) == AnswerRequest(
        "m",
        (RawText("hi", "text_input"),),
        "text_input",
        sampling=SamplingParams(temperature=0),
        given=frozenset({"temperature", "top_p", "top_k", "min_p", "typical_p"}),
        stopping=StopParams(max_tokens=20),
    )


@pytest.mark.parametrize(
    "shaping", [{"temperature": 1.7}, {"top_k": 9}, {"min_p": 0.3, "typical_p": 0.2}, {"top_p": 0.1}]
)
def test_a_prompt_is_continued_greedily_without_do_sample(shaping: dict[str, Any]) -> None:
    """Decoding is greedy whatever other parameters are given; penalties and the seed stay."""
    sampling = sampling_pb2.SamplingParams(**shaping, seed=7, repetition_penalty=2)
    request = text_generation_pb2.GenerateTextRequest(model="m", text_input="hi", sampling=sampling)
    assert to_answer_request(request).sampling == SamplingParams(temperature=0, seed=7, repetition_penalty=2)
