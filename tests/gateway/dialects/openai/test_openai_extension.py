"""Fields of other servers in requests of the OpenAI style, and their effects on answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf import text_format
from sluice.v1 import chat_pb2, completion_pb2

from gateway.dialects.seam.failure import Failure
from tests.gateway.dialects.openai.extension_requests import ASSISTANT, USER, parse, parse_completion

SCHEMA = {"type": "object", "properties": {"a": {"const": 1.0}}}
SCHEMA_TEXT = json.dumps(SCHEMA)
JSON = f'json_schema {{ name: "schema" schema: {json.dumps(SCHEMA_TEXT)} in_prompt: false }}'
CHOICE = 'choice { texts: "a" texts: "b" }'


PARSERS = [parse, parse_completion]
for_chats_and_completions = pytest.mark.parametrize("parse_request", PARSERS, ids=["chat", "completion"])


@pytest.mark.parametrize(
    ("fields", "constraint"),
    [
        ({"structured_outputs": {"json": SCHEMA}}, JSON),
        ({"structured_outputs": {"json": SCHEMA_TEXT}}, JSON),
        ({"structured_outputs": {"regex": "a+"}}, 'regex: "a+"'),
        ({"structured_outputs": {"choice": ["a", "b"]}}, CHOICE),
        ({"structured_outputs": {"grammar": "start: /a/"}}, 'grammar: "start: /a/"'),
        ({"structured_outputs": {"json_object": True}}, "json_object { }"),
        ({"structured_outputs": {"json_object": False, "disable_fallback": True}}, ""),
        ({"guided_json": SCHEMA}, JSON),
        ({"guided_json": SCHEMA_TEXT, "guided_decoding_backend": "xgrammar"}, JSON),
        ({"guided_regex": "a+"}, 'regex: "a+"'),
        ({"guided_choice": ["a", "b"]}, CHOICE),
        ({"guided_grammar": "start: /a/"}, 'grammar: "start: /a/"'),
        ({"json_schema": SCHEMA_TEXT}, JSON),
        ({"regex": "a+"}, 'regex: "a+"'),
        ({"ebnf": "root ::= x"}, 'grammar: "root ::= x"'),
        ({"response_format": {"type": "json", "value": SCHEMA}}, JSON),
        ({"response_format": {"type": "regex", "value": "a+"}}, 'regex: "a+"'),
        ({"response_format": {"type": "text"}, "regex": "a+"}, 'regex: "a+"'),
    ],
)
@for_chats_and_completions
def test_constraint_fields_of_other_servers_set_the_constraint(
    parse_request: Any, fields: dict[str, Any], constraint: str
) -> None:
    """Each field sets the contract's constraint; a schema is copied verbatim."""
    received = parse_request(**fields).request.output_constraint
    assert text_format.MessageToString(received, as_one_line=True) == constraint


@pytest.mark.parametrize(
    ("fields", "path", "name"),
    [
        ({"guided_json": SCHEMA}, "output_constraint.json_schema.schema", "guided_json"),
        ({"structured_outputs": {"json": SCHEMA}}, "output_constraint.json_schema.schema", "structured_outputs.json"),
        ({"structured_outputs": {"choice": []}}, "output_constraint.choice.texts", "structured_outputs.choice"),
        ({"guided_choice": ["a", ""]}, "output_constraint.choice.texts[1]", "guided_choice.1"),
        ({"regex": "("}, "output_constraint.regex", "regex"),
        ({"ebnf": "x"}, "output_constraint.grammar", "ebnf"),
        ({"ebnf": "x"}, "output_constraint", "ebnf"),
        ({"response_format": {"type": "json", "value": {}}}, "output_constraint.json_schema", "response_format.value"),
        ({"response_format": {"type": "json_object"}}, "output_constraint.json_object", "response_format"),
        ({"prompt_logprobs": 99}, "prompt_logprobs.top_logprobs", "prompt_logprobs"),
        ({"ignore_eos": True}, "stopping.include_stop_str_in_output", "include_stop_str_in_output"),
    ],
)
@for_chats_and_completions
def test_service_errors_name_the_callers_field(
    parse_request: Any, fields: dict[str, Any], path: str, name: str
) -> None:
    """An error of the service about the constraint names the caller's field."""
    given = {} if "prompt_logprobs" in fields else fields
    assert parse_request(**given).caller_name(path) == name


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"guided_json": SCHEMA, "regex": "a"}, "regex", "can't be combined with guided_json"),
        ({"response_format": {"type": "json_object"}, "ebnf": "a"}, "ebnf", "can't be combined with response_format"),
        ({"structured_outputs": {"regex": "a", "json": {}}}, "structured_outputs.regex", "structured_outputs.json"),
        ({"guided_json": 5}, "guided_json", "must be an object or a string"),
        ({"guided_choice": "a"}, "guided_choice", "must be a list"),
        ({"guided_choice": [1]}, "guided_choice.0", "must be a string"),
        ({"guided_choice": ["a"] * 1025}, "guided_choice", "at most 1024"),
        ({"structured_outputs": {"wings": 1}}, "structured_outputs.wings", "unknown field"),
        ({"structured_outputs": {"structural_tag": "x"}}, "structured_outputs.structural_tag", "not available"),
        ({"structured_outputs": {"whitespace_pattern": " "}}, "structured_outputs.whitespace_pattern", "white space"),
        ({"response_format": {"type": "regex"}}, "response_format.value", "required"),
        ({"prompt_logprobs": -1}, "prompt_logprobs", "from 0 to 20"),
        ({"prompt_logprobs": 1, "stream": True}, "prompt_logprobs", "without stream"),
        ({"top_k": -2}, "top_k", "must be at least -1"),
        ({"best_of": 2}, "best_of", "must equal n (1)"),
        ({"use_beam_search": True}, "use_beam_search", "beam search is not available"),
        ({"length_penalty": 2}, "length_penalty", "beam search"),
        ({"early_stopping": True}, "early_stopping", "beam search"),
        ({"logits_processors": ["x"]}, "logits_processors", "logit_bias"),
        ({"guided_whitespace_pattern": " "}, "guided_whitespace_pattern", "white space"),
        (
            {"skip_special_tokens": False, "spaces_between_special_tokens": True},
            "spaces_between_special_tokens",
            "joined as they are",
        ),
        ({"skip_special_tokens": "no"}, "skip_special_tokens", "must be a boolean"),
        ({"include_stop_str_in_output": 1}, "include_stop_str_in_output", "must be a boolean"),
        ({"return_token_ids": 1}, "return_token_ids", "must be a boolean"),
    ],
)
@for_chats_and_completions
def test_invalid_fields_are_rejected_by_name(
    parse_request: Any, fields: dict[str, Any], field: str, words: str
) -> None:
    """Invalid or unsupported fields are rejected with their name and the rule."""
    with pytest.raises(Failure) as caught:
        parse_request(**fields)
    assert (caught.value.status, caught.value.field) == (400, field)
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"chat_template_kwargs": [1]}, "chat_template_kwargs", "must be an object"),
        ({"chat_template": "{{ 1 }}"}, "chat_template", "a template is a program"),
        ({"echo": True}, "echo", "last message of the role assistant"),
        ({"reasoning": {"effort": "some"}}, "reasoning.effort", "'some' is not supported"),
        ({"reasoning": {"effort": "low", "max_tokens": 5}}, "reasoning.max_tokens", "combined with reasoning.effort"),
        ({"reasoning": {"enabled": False, "max_tokens": 5}}, "reasoning.max_tokens", "enabled: false"),
        ({"reasoning": {"enabled": True}, "reasoning_effort": "low"}, "reasoning", "combined with reasoning_effort"),
        ({"reasoning": {"max_tokens": -1}}, "reasoning.max_tokens", "from 0"),
        ({"reasoning": {"summary": "auto"}}, "reasoning.summary", "unknown field"),
    ],
)
def test_unsupported_chat_fields_are_rejected_by_name(fields: dict[str, Any], field: str, words: str) -> None:
    """Invalid or unsupported fields of chats are rejected with their name and the rule."""
    with pytest.raises(Failure) as caught:
        parse(**fields)
    assert (caught.value.status, caught.value.field) == (400, field)
    assert words in caught.value.message


def test_echo_with_prompt_logprobs_is_rejected() -> None:
    """A completion can't request prompt logprobs by both `echo` and `prompt_logprobs`."""
    with pytest.raises(Failure) as caught:
        parse_completion(prompt_logprobs=1, echo=True, logprobs=1)
    assert caught.value.field == "prompt_logprobs"


@for_chats_and_completions
@pytest.mark.parametrize("top_k", [-1, 0])
def test_top_k_0_or_minus_1_disables_top_k(parse_request: Any, top_k: int) -> None:
    """The values that disable it in vLLM and SGLang are the contract's 0, which also disables a model's default."""
    sampling = parse_request(top_k=top_k).request.sampling
    assert (sampling.HasField("top_k"), sampling.top_k) == (True, 0)


@for_chats_and_completions
def test_neutral_values_of_unsupported_fields_are_accepted(parse_request: Any) -> None:
    """Neutral values of unsupported fields are accepted, because clients of other servers send them."""
    defaults = {
        "best_of": 1, "use_beam_search": False, "length_penalty": 1, "early_stopping": False,
        "logits_processors": [], "spaces_between_special_tokens": True, "return_token_ids": False,
        "structured_outputs": {"disable_any_whitespace": False}, "guided_decoding_backend": "auto",
    }  # fmt: skip
    assert parse_request(**defaults).request == parse_request().request
    assert parse_request(**dict.fromkeys(defaults), guided_json=None, regex=None).request == parse_request().request


@pytest.mark.parametrize(
    ("given", "effort", "budget"),
    [
        ({"effort": "high"}, chat_pb2.REASONING_EFFORT_HIGH, None),
        ({"effort": "none", "enabled": True}, chat_pb2.REASONING_EFFORT_NONE, None),
        ({"max_tokens": 7}, chat_pb2.REASONING_EFFORT_HIGH, 7),
        ({"max_tokens": 0}, chat_pb2.REASONING_EFFORT_NONE, 0),
        ({"enabled": True}, chat_pb2.REASONING_EFFORT_MEDIUM, None),
        ({"enabled": False}, chat_pb2.REASONING_EFFORT_NONE, None),
        ({"exclude": True}, chat_pb2.REASONING_EFFORT_UNSPECIFIED, None),
        ({}, chat_pb2.REASONING_EFFORT_UNSPECIFIED, None),
    ],
)
def test_reasoning_is_set_by_effort_or_token_budget(
    given: dict[str, Any], effort: chat_pb2.ReasoningEffort, budget: int | None
) -> None:
    """Reasoning is set by effort, by a token budget, or by `enabled`."""
    request = parse(reasoning=given).request
    assert request.reasoning_effort == effort
    assert (request.reasoning_budget if request.HasField("reasoning_budget") else None) == budget


def test_template_variables_are_passed_as_json() -> None:
    """The template receives its variables verbatim, and the options about the last turn."""
    request = parse(
        chat_template_kwargs={"a": [1.0, None]}, continue_final_message=True, messages=[USER, ASSISTANT]
    ).request
    assert json.loads(request.chat_template_kwargs) == {"a": [1.0, None]}
    assert request.continue_final_message
    assert not request.HasField("add_generation_prompt")
    assert parse(add_generation_prompt=False).request.HasField("add_generation_prompt")


NONE, LOW, MEDIUM, HIGH = (
    chat_pb2.ReasoningEffort.Value(f"REASONING_EFFORT_{name}") for name in ("NONE", "LOW", "MEDIUM", "HIGH")
)


@pytest.mark.parametrize(
    ("fields", "effort", "budget"),
    [
        ({"enable_thinking": False}, NONE, None),
        ({"enable_thinking": True}, MEDIUM, None),
        ({"enable_thinking": True, "thinking_budget": 50}, HIGH, 50),
        ({"thinking_budget": 0}, NONE, 0),
        ({"thinking": {"type": "disabled"}}, NONE, None),
        ({"thinking": {"type": "disabled"}, "reasoning_effort": "high"}, NONE, None),
        ({"thinking": {"type": "disabled"}, "enable_thinking": False}, NONE, None),
        ({"thinking": {"type": "enabled"}}, MEDIUM, None),
        ({"thinking": {"type": "enabled", "clear_thinking": False}, "reasoning_effort": "low"}, LOW, None),
        ({"thinking": {"type": "enabled", "keep": "all"}, "reasoning_effort": "none"}, MEDIUM, None),
        ({"thinking": {"type": "enabled", "budget_tokens": 50}}, HIGH, 50),
    ],
)
def test_thinking_is_set_by_vendors_fields(fields: dict[str, Any], effort: int, budget: int | None) -> None:
    """Those of Qwen, DeepSeek, GLM and Kimi switch reasoning; whether to reason precedes how much."""
    request = parse(**fields).request
    assert request.reasoning_effort == effort
    assert (request.reasoning_budget if request.HasField("reasoning_budget") else None) == budget


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"thinking": {"type": "enabled"}, "enable_thinking": False}, "thinking"),
        ({"thinking": {"type": "enabled"}, "reasoning": {"effort": "low"}}, "thinking"),
        ({"enable_thinking": False, "reasoning": {"effort": "low"}}, "enable_thinking"),
        ({"enable_thinking": False, "thinking_budget": 5}, "thinking_budget"),
        ({"thinking": {"type": "disabled", "budget_tokens": 5}}, "thinking.budget_tokens"),
        ({"thinking": {"type": "enabled", "budget_tokens": 5}, "thinking_budget": 6}, "thinking_budget"),
        ({"thinking": {"type": "enabled", "budget_tokens": -1}}, "thinking.budget_tokens"),
        ({"thinking_budget": -1}, "thinking_budget"),
        ({"thinking": {"type": "some"}}, "thinking.type"),
    ],
)
def test_contradictory_thinking_is_rejected(fields: dict[str, Any], field: str) -> None:
    """The error names the field."""
    with pytest.raises(Failure) as raised:
        parse(**fields)
    assert raised.value.field == field


@pytest.mark.parametrize("parsed", [parse, parse_completion])
def test_repeat_penalty_is_another_name_of_the_penalty(parsed: Any) -> None:
    """llama.cpp's name has the same effect; two different values are rejected, and an error has the client's name."""
    call = parsed(repeat_penalty=1.5)
    assert (
        call.request
        == parsed(repetition_penalty=1.5).request
        == parsed(repeat_penalty=1.5, repetition_penalty=1.5).request
    )
    assert call.caller_name("sampling.repetition_penalty") == "repeat_penalty"
    assert parsed().caller_name("sampling.repetition_penalty") == "repetition_penalty"
    with pytest.raises(Failure) as caught:
        parsed(repeat_penalty=1.5, repetition_penalty=1.1)
    assert caught.value.field == "repeat_penalty"


@pytest.mark.parametrize(
    ("parsed", "event"),
    [(parse, chat_pb2.StreamChatResponse()), (parse_completion, completion_pb2.StreamCompleteResponse())],
    ids=["chat", "completion"],
)
def test_openrouters_usage_requests_that_of_a_stream(parsed: Any, event: Any) -> None:
    """A stream has a chunk of usage, as with `include_usage`; a whole answer has it anyway."""
    event.usage.prompt_tokens = 3

    def has_usage(**fields: Any) -> bool:
        return b'"prompt_tokens":3' in parsed(stream=True, **fields).encoder.chunk(event)

    assert has_usage(usage={"include": True})
    assert has_usage(usage={"include": True}, stream_options={"include_usage": False})
    assert not has_usage(usage={"include": False})
    assert not has_usage()
    assert parsed(usage={"include": True}).request == parsed().request
