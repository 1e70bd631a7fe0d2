"""Fields of other servers in requests of the OpenAI style, and their effects on answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf import text_format
from sluice.v1 import chat_pb2, completion_pb2

from gateway.dialects.openai.chat import OpenAITranslator
from gateway.dialects.openai.completion import OpenAICompletionTranslator
from gateway.dialects.seam.failure import Failure
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.translator import ParsedRequest

SCHEMA = {"type": "object", "properties": {"a": {"const": 1.0}}}
SCHEMA_TEXT = json.dumps(SCHEMA)
JSON = f'json_schema {{ name: "schema" schema: {json.dumps(SCHEMA_TEXT)} in_prompt: false }}'
CHOICE = 'choice { texts: "a" texts: "b" }'
USER = {"role": "user", "content": "hi"}
SAID = {"role": "assistant", "content": [{"type": "text", "text": "I "}, {"type": "text", "text": "am"}]}
EACH = {"include_usage": True, "continuous_usage_stats": True}


def parse(**fields: Any) -> ParsedRequest[chat_pb2.ChatRequest]:
    """Return the call for a chat with these fields."""
    body = {"model": "m", "messages": [USER], **fields}
    return OpenAITranslator().parse(HttpRequest(json.dumps(body).encode()))


def parse_completion(**fields: Any) -> ParsedRequest[completion_pb2.CompleteRequest]:
    """Return the call for a completion with these fields."""
    return OpenAICompletionTranslator().parse(
        HttpRequest(json.dumps({"model": "m", "prompt": "hi", **fields}).encode())
    )


PARSERS = [parse, parse_completion]
both = pytest.mark.parametrize("asked", PARSERS, ids=["chat", "completion"])


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
@both
def test_constraint_fields_of_other_servers_set_the_constraint(
    asked: Any, fields: dict[str, Any], constraint: str
) -> None:
    """Each field sets the contract's constraint; a schema is copied verbatim."""
    received = asked(**fields).request.output_constraint
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
@both
def test_service_errors_name_the_callers_field(asked: Any, fields: dict[str, Any], path: str, name: str) -> None:
    """An error of the service about the constraint names the caller's field."""
    given = {} if "prompt_logprobs" in fields else fields
    assert asked(**given).caller_name(path) == name


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
@both
def test_invalid_fields_are_rejected_by_name(asked: Any, fields: dict[str, Any], field: str, words: str) -> None:
    """Invalid or unsupported fields are rejected with their name and the rule."""
    with pytest.raises(Failure) as caught:
        asked(**fields)
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


@both
@pytest.mark.parametrize("top_k", [-1, 0])
def test_top_k_0_or_minus_1_disables_top_k(asked: Any, top_k: int) -> None:
    """The values that disable it in vLLM and SGLang are the contract's 0, which also disables a model's default."""
    sampling = asked(top_k=top_k).request.sampling
    assert (sampling.HasField("top_k"), sampling.top_k) == (True, 0)


@both
def test_neutral_values_of_unsupported_fields_are_accepted(asked: Any) -> None:
    """Neutral values of unsupported fields are accepted, because clients of other servers send them."""
    defaults = {
        "best_of": 1, "use_beam_search": False, "length_penalty": 1, "early_stopping": False,
        "logits_processors": [], "spaces_between_special_tokens": True, "return_token_ids": False,
        "structured_outputs": {"disable_any_whitespace": False}, "guided_decoding_backend": "auto",
    }  # fmt: skip
    assert asked(**defaults).request == asked().request
    assert asked(**dict.fromkeys(defaults), guided_json=None, regex=None).request == asked().request


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
    request = parse(chat_template_kwargs={"a": [1.0, None]}, continue_final_message=True, messages=[USER, SAID]).request
    assert json.loads(request.chat_template_kwargs) == {"a": [1.0, None]}
    assert request.continue_final_message
    assert not request.HasField("add_generation_prompt")
    assert parse(add_generation_prompt=False).request.HasField("add_generation_prompt")


STARTED = 'started { id: "i" model: "m" prompt_tokens: 2 prompt_token_ids: [3, 4] }'
STREAM = [
    STARTED,
    'reasoning_delta { text: "hm" } tokens { num_tokens: 1 ids: 7 }',
    'content_delta { text: "Hi" } tokens { num_tokens: 2 ids: [8, 9] }',
    "choice_finished { finish_reason: FINISH_REASON_STOP } tokens { num_tokens: 1 ids: 1 }",
    "usage { prompt_tokens: 2 completion_tokens: 4 }",
    "completed {}",
]


def chunks(call: Any, events: list[str], kind: Any = chat_pb2.StreamChatResponse) -> list[Any]:
    """Return a stream's JSON."""
    stream = b"".join(call.encoder.chunk(text_format.Parse(event, kind())) for event in events).decode()
    *bodies, done, _ = stream.split("\n\n")
    assert done == "data: [DONE]"
    return [json.loads(body.removeprefix("data: ")) for body in bodies]


def test_every_chunk_has_usage_with_continuous_usage_stats() -> None:
    """The usage grows to that of the last chunk; the service is asked for token counts only."""
    call = parse(stream=True, stream_options=EACH)
    assert call.request.HasField("tokens")
    assert not call.request.tokens.ids
    received = chunks(call, STREAM)
    usages = [(each["usage"]["prompt_tokens"], each["usage"]["completion_tokens"]) for each in received]
    assert usages == [(2, 1), (2, 1), (2, 3), (2, 4), (2, 4)]
    assert all(each["usage"]["total_tokens"] == sum(pair) for each, pair in zip(received, usages, strict=True))
    assert all("token_ids" not in choice for each in received for choice in each["choices"])


def test_continuous_usage_stats_requires_include_usage() -> None:
    """`continuous_usage_stats` requires `include_usage`, as in vLLM."""
    call = parse(stream=True, stream_options={"continuous_usage_stats": True})
    assert not call.request.HasField("tokens")
    assert all("usage" not in chunk for chunk in chunks(call, STREAM))


def test_usage_in_a_completion_chunk_counts_its_choice() -> None:
    """A completion chunk's usage is that of its choice with its prompt's tokens."""
    call = parse_completion(prompt=["a", "b"], n=2, stream=True, stream_options=EACH)
    events = [
        "started { n: 2 prompt_tokens: [5, 6] }",
        'delta { choice_index: 3 text: "x" } tokens { num_tokens: 2 }',
        'delta { choice_index: 0 text: "y" } tokens { num_tokens: 1 }',
        'delta { choice_index: 3 text: "z" } tokens { num_tokens: 1 }',
        "completed {}",
    ]
    received = chunks(call, events, completion_pb2.StreamCompleteResponse)
    usages = [(each["usage"]["prompt_tokens"], each["usage"]["completion_tokens"]) for each in received]
    assert usages == [(6, 2), (5, 1), (6, 3)]


def test_chat_chunk_has_the_token_ids_of_its_text() -> None:
    """The first chunk has the prompt's ids, and each generated token's id is sent exactly once."""
    call = parse(stream=True, return_token_ids=True)
    assert call.request.tokens.ids
    first, *others = chunks(call, STREAM)
    assert first["prompt_token_ids"] == [3, 4]
    assert "token_ids" not in first["choices"][0]
    assert [each["choices"][0]["token_ids"] for each in others] == [[7], [8, 9], [1]]
    assert not any("prompt_token_ids" in each for each in others)


def test_completion_chunk_has_the_token_ids_of_its_text() -> None:
    """Each choice's first chunk has the token ids of its prompt."""
    call = parse_completion(stream=True, return_token_ids=True, n=2)
    events = [
        "started { n: 2 prompt_token_ids { ids: [3, 4] } prompt_tokens: 2 }",
        'delta { text: "x" } tokens { num_tokens: 1 ids: 7 }',
        'delta { choice_index: 1 text: "y" } tokens { num_tokens: 1 ids: 8 }',
        "choice_finished { finish_reason: FINISH_REASON_STOP } tokens { num_tokens: 1 ids: 1 }",
        "completed {}",
    ]
    received = [chunk["choices"][0] for chunk in chunks(call, events, completion_pb2.StreamCompleteResponse)]
    assert [choice["token_ids"] for choice in received] == [[7], [8], [1]]
    assert [choice.get("prompt_token_ids") for choice in received] == [[3, 4], [3, 4], None]


def test_unstreamed_answers_have_token_ids_and_prompt_logprobs() -> None:
    """Whole answers have token ids and the prompt's logprobs, where the first token has none."""
    fields = {"return_token_ids": True, "prompt_logprobs": 1}
    prompt = (
        'prompt_logprobs { token: "h" token_id: 3 } prompt_logprobs { token: "i" token_id: 4 logprob: -2'
        ' top_logprobs { token: "a" token_id: 9 logprob: -0.5 } }'
    )
    scores = [
        None,
        {
            "9": {"logprob": -0.5, "rank": 1, "decoded_token": "a"},
            "4": {"logprob": -2.0, "rank": None, "decoded_token": "i"},
        },
    ]
    chat = text_format.Parse(
        f"choices {{ finish_reason: FINISH_REASON_STOP token_ids: [7, 1] }} prompt_token_ids: [3, 4] {prompt}",
        chat_pb2.ChatResponse(),
    )
    call = parse(**fields)
    assert call.request.prompt_logprobs.top_logprobs == 1
    received = json.loads(call.encoder.whole(chat))
    assert (received["prompt_token_ids"], received["choices"][0]["token_ids"]) == ([3, 4], [7, 1])
    assert received["prompt_logprobs"] == scores
    completion = text_format.Parse(
        f"choices {{ finish_reason: FINISH_REASON_STOP token_ids: [7, 1] prompt_token_ids: [3, 4] {prompt} }}",
        completion_pb2.CompleteResponse(),
    )
    (choice,) = json.loads(parse_completion(**fields, logprobs=0).encoder.whole(completion))["choices"]
    assert (choice["prompt_token_ids"], choice["token_ids"], choice["prompt_logprobs"]) == ([3, 4], [7, 1], scores)
    assert choice["logprobs"]["tokens"] == []


ANSWER = text_format.Parse(
    'choices { finish_reason: FINISH_REASON_STOP message { content { text: "Hi" } reasoning: "hm" } }',
    chat_pb2.ChatResponse(),
)


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({}, {"reasoning_content"}),
        ({"reasoning": {"effort": "low"}}, {"reasoning_content", "reasoning"}),
        ({"reasoning": {"exclude": True}}, set()),
        ({"include_reasoning": False}, set()),
        ({"include_reasoning": True}, {"reasoning_content"}),
    ],
)
def test_reasoning_has_the_requested_field_names_or_is_omitted(fields: dict[str, Any], names: set[str]) -> None:
    """Reasoning has the requested field names or is omitted, whole and streamed; no token id is lost."""
    message = json.loads(parse(**fields).encoder.whole(ANSWER))["choices"][0]["message"]
    assert {name: message[name] for name in message if "reasoning" in name} == dict.fromkeys(names, "hm")
    received = chunks(parse(**fields, stream=True, return_token_ids=True), STREAM)
    deltas = [each["choices"][0]["delta"] for each in received if each["choices"]]
    assert {name for delta in deltas for name in delta if "reasoning" in name} == names
    assert [i for each in received for choice in each["choices"] for i in choice.get("token_ids", [])] == [7, 8, 9, 1]


def test_echo_returns_the_assistants_last_message() -> None:
    """The answer begins with the assistant's last message, which it continues."""
    fields = {"messages": [USER, SAID], "echo": True, "continue_final_message": True}
    whole = json.loads(parse(**fields).encoder.whole(ANSWER))["choices"][0]["message"]["content"]
    received = chunks(parse(**fields, stream=True), STREAM)
    streamed = "".join(each["choices"][0]["delta"].get("content") or "" for each in received if each["choices"])
    assert whole == streamed == "I amHi"
