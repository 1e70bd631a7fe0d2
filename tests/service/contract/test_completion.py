"""Completions: requests as values."""

from __future__ import annotations

from typing import Any

from google.protobuf import json_format
from sluice.v1 import completion_pb2, logprobs_pb2

from service.contract.generations.completion import to_answer_request
from service.generation.formats.output_format import TextGrammar
from service.generation.prompts.conversation import Conversation, Message, RawText, RawTokens, Role, TextPart
from service.generation.requests.answer_request import AnswerRequest
from service.generation.requests.parameters import LogprobsOptions, SamplingParams, StopParams
from tests.service.contract.fakes import RESUMED, completion_request, resume_options


def test_every_field_is_converted() -> None:
    """Every field of a completion's request is a value of the internal request, except fields for the answer only."""
    fields: dict[str, Any] = {
        "model": "m",
        "prompts": [{"text": "hi"}, {"tokenIds": {"ids": [1, 2]}}],
        "useRawPrompt": True,
        "echo": True,
        "suffix": "!",
        "sampling": {"temperature": 0.5, "seed": "7"},
        "stopping": {"maxTokens": 9},
        "n": 3,
        "promptLogprobs": {"topLogprobs": 2},
        "outputConstraint": {"grammar": "start: /a/"},
        "skipSpecialTokens": False,
        "tokens": {},  # returned with the answer
        "serving": {
            "priority": -3,
            "cacheSalt": "s",
            "deployment": "d",
            "errorBehavior": "ERROR_BEHAVIOR_TRUNCATE",
            "separateTokens": True,
        },
    }
    request = json_format.ParseDict(fields, completion_pb2.CompleteRequest())
    request.resume.CopyFrom(resume_options(RESUMED))
    given = {each.name for each, _ in request.ListFields()}
    assert given | {"prompt_only", "logprobs"} == {each.name for each in request.DESCRIPTOR.fields}
    assert to_answer_request(request) == AnswerRequest(
        model="m",
        prompts=(RawText("hi", "prompts[0]"), RawTokens([1, 2], "prompts[1]")),
        prompts_field="prompts",
        deployment="d",
        sampling=SamplingParams(temperature=0.5, seed=7),
        given=frozenset({"temperature", "seed"}),
        stopping=StopParams(max_tokens=9),
        n=3,
        prompt_logprobs=LogprobsOptions(2),
        output_format=TextGrammar("start: /a/", "output_constraint.grammar"),
        skip_special_tokens=False,
        priority=-3,
        cache_salt="s",
        truncates=True,
        separates_tokens=True,
        resume=RESUMED,
        wants_prompt_texts=True,
    )


def test_omitted_fields_have_their_defaults() -> None:
    """A prompt is raw by default, and nothing about it is returned."""
    converted = to_answer_request(completion_request("hi"))
    assert converted == AnswerRequest("tiny", (RawText("hi", "prompts[0]"),), "prompts")


def test_prompt_only_request_generates_one_token() -> None:
    """A request for the prompt alone generates one token, whatever other limits it has."""
    converted = to_answer_request(
        completion_request(prompt_only=True, echo=True, stopping={"min_tokens": 5, "stop": ["a"]})
    )
    assert converted.stopping == StopParams(max_tokens=1)


def test_prompt_logprobs_need_an_echo_or_an_explicit_request() -> None:
    """Prompt logprobs need an echo with logprobs, or an explicit request."""
    options = logprobs_pb2.LogprobsOptions()
    assert to_answer_request(completion_request(logprobs=options)).prompt_logprobs is None
    assert to_answer_request(completion_request(echo=True)).prompt_logprobs is None
    assert to_answer_request(completion_request(echo=True, logprobs=options)).prompt_logprobs == LogprobsOptions()
    assert to_answer_request(completion_request(prompt_logprobs=options)).prompt_logprobs == LogprobsOptions()


def test_templated_prompt_is_a_user_message() -> None:
    """A text becomes a user's message that may be truncated, with the prompt's field for errors. Tokens stay raw."""
    first, second = to_answer_request(completion_request([1], "hi", use_raw_prompt=False)).prompts
    assert first == RawTokens([1], "prompts[0]")
    message_value = Message(Role.USER, (TextPart("hi"),), field="prompts[1]")
    assert second == Conversation((message_value,), field="prompts[1]", template_field="use_raw_prompt", cuts_text=True)
