"""Request fields of other servers take effect through Envoy, sent by OpenAI's own client."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import jsonschema
import openai
import pytest

from tests.contract.parameters import TOKENIZER, bias, token_id
from tests.e2e.clients.extension_requests import MODEL, QUESTION, text_of

BEGUN: Any = [*QUESTION, {"role": "assistant", "content": "I am"}]
SCHEMA: Any = {
    "type": "object",
    "properties": {"city": {"enum": ["Oslo", "Rome"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"],
}
LARK = 'start: "[" item ("," item)* "]"\nitem: "yes" | "no" | start\n'
GBNF = 'root ::= "[" item ("," item)* "]"\nitem ::= "yes" | "no" | root\n'
NESTED = r"[\[\],yesno]+"
END = "<|im_end|>"


def is_city(text: str) -> bool:
    jsonschema.validate(json.loads(text), SCHEMA)
    return True


@pytest.mark.parametrize(
    ("fields", "pattern"),
    [
        ({"structured_outputs": {"choice": ["Oslo", "Rome"]}}, "Oslo|Rome"),
        ({"structured_outputs": {"regex": "[0-9]{3}-[0-9]{2}"}}, "[0-9]{3}-[0-9]{2}"),
        ({"structured_outputs": {"json": SCHEMA}}, None),
        ({"structured_outputs": {"grammar": LARK}}, NESTED),
        ({"guided_choice": ["Oslo", "Rome"]}, "Oslo|Rome"),
        ({"guided_regex": "[0-9]{3}-[0-9]{2}"}, "[0-9]{3}-[0-9]{2}"),
        ({"guided_json": SCHEMA}, None),
        ({"guided_grammar": GBNF}, NESTED),
        ({"regex": "[0-9]{3}-[0-9]{2}"}, "[0-9]{3}-[0-9]{2}"),
        ({"json_schema": json.dumps(SCHEMA)}, None),
        ({"ebnf": GBNF}, NESTED),
        ({"response_format": {"type": "json", "value": SCHEMA}}, None),
        ({"response_format": {"type": "regex", "value": "[0-9]{3}-[0-9]{2}"}}, "[0-9]{3}-[0-9]{2}"),
    ],
)
def test_text_matches_the_requested_constraint(generate: Any, fields: dict[str, Any], pattern: str | None) -> None:
    """The text matches the constraint under each of its names, and does not match without it."""
    answer = generate(**fields)
    free = text_of(generate())
    if pattern is None:
        assert is_city(text_of(answer))
        assert not free.startswith("{")
    else:
        assert re.fullmatch(pattern, text_of(answer)) or answer.choices[0].finish_reason == "length"
        assert set(text_of(answer)) <= set("[],yesno") or pattern is not NESTED
        assert not re.fullmatch(pattern, free)


def test_control_tokens_are_omitted_unless_requested(generate: Any) -> None:
    """A special token appears in the text only with `skip_special_tokens` false."""
    fields: dict[str, Any] = bias(end=100) | {"max_tokens": 3}
    assert text_of(generate(**fields)) == ""
    assert text_of(generate(**fields, skip_special_tokens=False)) == END * 3


def test_stop_strings_and_tokens_are_included_on_request(generate: Any) -> None:
    """A stop string or stop token appears in the text only on request; the finish reason is the same."""
    fields: dict[str, Any] = bias(Q=100)
    for end, text in (({"stop": "QQ"}, "QQ"), ({"stop_token_ids": [token_id("Q")]}, "Q")):
        without, with_it = generate(**fields, **end), generate(**fields, **end, include_stop_str_in_output=True)
        assert (text_of(without), text_of(with_it)) == ("", text)
        assert without.choices[0].finish_reason == with_it.choices[0].finish_reason == "stop"


def test_disabling_values_of_vllm_and_sglang_have_no_effect(generate: Any) -> None:
    """The values by which vLLM and SGLang disable a parameter change nothing."""
    plain = text_of(generate(seed=5, temperature=1))
    off = {"use_beam_search": False, "length_penalty": 1.0, "best_of": 1, "spaces_between_special_tokens": True}
    assert text_of(generate(seed=5, temperature=1, top_k=-1, **off)) == plain
    assert text_of(generate(seed=5, temperature=1, top_k=0, skip_special_tokens=True)) == plain


def chat(openai_client: Any, **extra: Any) -> Any:
    return openai_client.chat.completions.create(
        model=MODEL, messages=extra.pop("messages", QUESTION), temperature=0, max_tokens=40, extra_body=extra
    )


def prompt_of(openai_client: Any, **fields: Any) -> str:
    """Return the prompt of a chat with these fields, decoded from its tokens."""
    body = {"model": MODEL, "messages": QUESTION, **fields}
    found = openai_client.post("/tokenize", cast_to=httpx.Response, body=body).json()
    assert found["count"] == len(found["tokens"])
    return TOKENIZER.decode(found["tokens"], skip_special_tokens=False)


def test_template_options_change_the_prompt(openai_client: Any) -> None:
    """The request's template options change the prompt, and the chat reports the same prompt tokens."""
    header = "<|im_start|>assistant\n"
    plain = prompt_of(openai_client)
    assert plain.endswith(header + "<think>\n\n</think>\n\n")
    assert prompt_of(openai_client, chat_template_kwargs={"enable_thinking": True}).endswith(header)
    assert prompt_of(openai_client, chat_template_kwargs={"nobody_knows": 1}) == plain
    assert prompt_of(openai_client, add_generation_prompt=False) == plain.partition(header)[0]
    begun = prompt_of(openai_client, messages=BEGUN, continue_final_message=True, add_generation_prompt=False)
    assert begun.endswith("I am")
    for fields, prompt in (
        ({"chat_template_kwargs": {"enable_thinking": True}}, None),
        ({"add_generation_prompt": False}, None),
        ({"messages": BEGUN, "continue_final_message": True}, begun),
    ):
        found = chat(openai_client, **fields, return_token_ids=True).prompt_token_ids
        assert TOKENIZER.decode(found, skip_special_tokens=False) == (prompt or prompt_of(openai_client, **fields))


def test_echo_returns_the_complete_turn(openai_client: Any) -> None:
    """With `echo` the answer contains the begun turn and its continuation, also when streamed."""
    fields: dict[str, Any] = {"messages": BEGUN, "continue_final_message": True}
    rest, whole = text_of(chat(openai_client, **fields)), text_of(chat(openai_client, **fields, echo=True))
    assert rest
    assert whole == f"I am{rest}"
    stream = openai_client.chat.completions.create(
        model=MODEL, temperature=0, max_tokens=40, stream=True, messages=BEGUN,
        extra_body={"continue_final_message": True, "echo": True},
    )  # fmt: skip
    assert "".join(map(text_of, stream)) == whole


def test_reasoning_is_limited_by_tokens_and_effort(openai_client: Any) -> None:
    """Reasoning is limited by tokens and by effort; excluded reasoning still counts."""
    thought = chat(openai_client, reasoning={"max_tokens": 8})
    assert 0 < thought.usage.completion_tokens_details.reasoning_tokens <= 8 + 8  # including the markers
    assert thought.choices[0].message.reasoning == thought.choices[0].message.reasoning_content
    hidden = chat(openai_client, reasoning={"max_tokens": 8, "exclude": True})
    assert hidden.usage.completion_tokens_details.reasoning_tokens > 0
    assert not hasattr(hidden.choices[0].message, "reasoning_content")
    assert text_of(hidden) == text_of(thought)
    for none in ({"enabled": False}, {"effort": "none"}):
        assert chat(openai_client, reasoning=none).usage.completion_tokens_details.reasoning_tokens == 0
    assert chat(openai_client, reasoning={"enabled": True}).usage.completion_tokens_details.reasoning_tokens > 0


@pytest.mark.parametrize(
    ("fields", "param", "text"),
    [
        ({"structured_outputs": {"grammar": "root ::= ["}}, "structured_outputs.grammar", "GBNF"),
        ({"guided_grammar": "begin: /a/"}, "guided_grammar", "start"),
        ({"ebnf": 'root ::= "a" nothing'}, "ebnf", "nothing"),
        ({"guided_regex": "("}, "guided_regex", "regex"),
        ({"guided_json": {"type": "array", "uniqueItems": True}}, "guided_json", "uniqueItems"),
        ({"guided_json": "{"}, "guided_json", "JSON"),
        ({"guided_choice": ["a", "a"]}, "guided_choice", "unique"),
        ({"structured_outputs": {"choice": []}}, "structured_outputs.choice", "1"),
        ({"response_format": {"type": "json", "value": {"type": "no"}}}, "response_format.value", "type"),
        ({"prompt_logprobs": 21}, "prompt_logprobs", "20"),
        ({"min_tokens": 70}, "min_tokens", "max_tokens"),
        ({"stop_token_ids": [70_000]}, "stop_token_ids.0", "70000"),
        ({"typical_p": 2}, "typical_p", "1"),
        ({"use_beam_search": True}, "use_beam_search", "beam search"),
    ],
)
def test_invalid_values_are_rejected_by_name(generate: Any, fields: dict[str, Any], param: str, text: str) -> None:
    """An invalid value raises the client's BadRequestError with the client's field name."""
    with pytest.raises(openai.BadRequestError) as caught:
        generate(**fields)
    assert caught.value.param == param
    assert text in caught.value.message


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs"),
        ({"continue_final_message": True}, "continue_final_message"),
        ({"messages": BEGUN, "continue_final_message": True, "add_generation_prompt": True}, "add_generation_prompt"),
        ({"guided_grammar": LARK, "tools": [{"type": "function", "function": {"name": "f"}}]}, "guided_grammar"),
        ({"reasoning": {"max_tokens": -1}}, "reasoning.max_tokens"),
    ],
)
def test_invalid_values_of_chats_are_rejected_by_name(openai_client: Any, fields: dict[str, Any], param: str) -> None:
    """An invalid value of a chat raises BadRequestError with the client's field name."""
    with pytest.raises(openai.BadRequestError) as caught:
        chat(openai_client, **fields)
    assert caught.value.param == param


@pytest.mark.parametrize(
    "response_format",
    [
        {"type": "json", "value": SCHEMA},
        {"type": "json_object", "value": SCHEMA},
        {"type": "json_schema", "value": {"name": "trip", "schema": SCHEMA}},
        {"type": "json_schema", "value": {"schema": SCHEMA}},
    ],
)
def test_tgi_schema_formats_constrain_the_answer(openai_client: Any, response_format: dict[str, Any]) -> None:
    """Each of TGI's forms of a schema constrains the answer."""
    jsonschema.validate(
        json.loads(text_of(chat(openai_client, response_format=response_format, max_tokens=100))), SCHEMA
    )
