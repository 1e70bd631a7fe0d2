"""Request fields of other servers take effect through Envoy, sent by OpenAI's own client."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import httpx
import jsonschema
import openai
import pytest

from tests.contract.parameters import TOKENIZER, bias, token_id
from tests.e2e.stack import Stack
from tests.waiting import GUARD_S

MODEL = "sluice-demo"
QUESTION: Any = [{"role": "user", "content": "Hello! Who are you?"}]
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
EACH: Any = {"include_usage": True, "continuous_usage_stats": True}


@pytest.fixture(scope="module")
def client(stack: Stack) -> Iterator[Any]:  # its overloads know only OpenAI's models
    """An OpenAI client of the public listener."""
    with openai.OpenAI(base_url=f"{stack.door}/v1", api_key="unused", max_retries=0) as client:
        yield client


@pytest.fixture(params=["chat", "completion"])
def ask(client: Any, request: pytest.FixtureRequest) -> Any:
    """Return a function that requests a chat, or a completion, with fields that the client does not know."""
    fields: dict[str, Any] = {"model": MODEL, "temperature": 0, "max_tokens": 60}

    def chat(**extra: Any) -> Any:
        known = {name: extra.pop(name) for name in ("stream", "stream_options") if name in extra}
        messages = extra.pop("messages", QUESTION)
        return client.chat.completions.create(**fields, messages=messages, **known, extra_body=extra)

    def complete(**extra: Any) -> Any:
        known = {name: extra.pop(name) for name in ("stream", "stream_options") if name in extra}
        return client.completions.create(**fields, prompt="One, two,", **known, extra_body=extra)

    return chat if request.param == "chat" else complete


def text_of(answer: Any) -> str:
    """Return the text of the one choice of an answer or a chunk."""
    (choice,) = answer.choices
    if hasattr(choice, "text"):
        return str(choice.text)
    said = choice.message if hasattr(choice, "message") else choice.delta
    return str(said.content or "")


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
def test_text_matches_the_requested_constraint(ask: Any, fields: dict[str, Any], pattern: str | None) -> None:
    """The text matches the constraint under each of its names, and does not match without it."""
    answer = ask(**fields)
    free = text_of(ask())
    if pattern is None:
        assert is_city(text_of(answer))
        assert not free.startswith("{")
    else:
        assert re.fullmatch(pattern, text_of(answer)) or answer.choices[0].finish_reason == "length"
        assert set(text_of(answer)) <= set("[],yesno") or pattern is not NESTED
        assert not re.fullmatch(pattern, free)


def test_control_tokens_are_omitted_unless_requested(ask: Any) -> None:
    """A special token appears in the text only with `skip_special_tokens` false."""
    said: dict[str, Any] = bias(end=100) | {"max_tokens": 3}
    assert text_of(ask(**said)) == ""
    assert text_of(ask(**said, skip_special_tokens=False)) == END * 3


def test_stop_strings_and_tokens_are_included_on_request(ask: Any) -> None:
    """A stop string or stop token appears in the text only on request; the finish reason is the same."""
    said: dict[str, Any] = bias(Q=100)
    for end, text in (({"stop": "QQ"}, "QQ"), ({"stop_token_ids": [token_id("Q")]}, "Q")):
        without, with_it = ask(**said, **end), ask(**said, **end, include_stop_str_in_output=True)
        assert (text_of(without), text_of(with_it)) == ("", text)
        assert without.choices[0].finish_reason == with_it.choices[0].finish_reason == "stop"


def test_disabling_values_of_vllm_and_sglang_have_no_effect(ask: Any) -> None:
    """The values by which vLLM and SGLang disable a parameter change nothing."""
    plain = text_of(ask(seed=5, temperature=1))
    off = {"use_beam_search": False, "length_penalty": 1.0, "best_of": 1, "spaces_between_special_tokens": True}
    assert text_of(ask(seed=5, temperature=1, top_k=-1, **off)) == plain
    assert text_of(ask(seed=5, temperature=1, top_k=0, skip_special_tokens=True)) == plain


def test_token_ids_detokenize_to_the_text(ask: Any, client: Any) -> None:
    """Token ids are the same streamed and unstreamed, include the prompt's, and `/detokenize` returns their text."""
    whole = ask(return_token_ids=True)
    (choice,) = whole.choices
    prompt = getattr(whole, "prompt_token_ids", None) or choice.prompt_token_ids
    assert len(prompt) == whole.usage.prompt_tokens
    assert len(choice.token_ids) == whole.usage.completion_tokens
    joined = client.post(
        "/detokenize",
        cast_to=httpx.Response,
        body={"model": MODEL, "tokens": choice.token_ids, "skip_special_tokens": True},
    )
    assert joined.json()["prompt"] == text_of(whole)
    streamed: list[int] = []
    for chunk in ask(return_token_ids=True, stream=True):
        (piece,) = chunk.choices
        streamed += getattr(piece, "token_ids", None) or []
    assert streamed == choice.token_ids


def test_usage_of_chunks_grows_to_the_total(ask: Any) -> None:
    """The usage of chunks increases up to the usage of the whole answer."""
    *chunks, last = ask(stream=True, stream_options=EACH)
    counts = [chunk.usage.completion_tokens for chunk in chunks]
    assert counts == sorted(counts)
    assert counts[0] > 0
    assert counts[-1] == last.usage.completion_tokens
    assert {chunk.usage.prompt_tokens for chunk in chunks} == {last.usage.prompt_tokens}
    assert all(each.usage.total_tokens == each.usage.prompt_tokens + each.usage.completion_tokens for each in chunks)


def test_prompt_logprobs_equal_those_of_an_echo(client: Any) -> None:
    """The prompt's logprobs equal those of a completion's echo, and the most likely token has rank 1."""
    fields: dict[str, Any] = {"model": MODEL, "prompt": "One, two, three,", "temperature": 0, "max_tokens": 1}
    asked = client.completions.create(**fields, extra_body={"prompt_logprobs": 2, "return_token_ids": True})
    echoed = client.completions.create(**fields, echo=True, logprobs=2)
    (choice,) = asked.choices
    first, *others = choice.prompt_logprobs
    assert first is None
    own = [entry[str(each)]["logprob"] for entry, each in zip(others, choice.prompt_token_ids[1:], strict=True)]
    wanted = echoed.choices[0].logprobs.token_logprobs[1 : len(own) + 1]
    assert all(math.isclose(a, b, abs_tol=1e-4) for a, b in zip(own, wanted, strict=True))
    for entry in others:
        ranked = sorted((e for e in entry.values() if e["rank"]), key=lambda e: int(e["rank"]))
        assert [each["rank"] for each in ranked] == [1, 2]
        assert ranked[0]["logprob"] >= ranked[1]["logprob"]
    assert "".join(entry[str(i)]["decoded_token"] for entry, i in zip(others, choice.prompt_token_ids[1:], strict=True))


def test_chat_returns_its_prompts_logprobs(client: Any) -> None:
    """A chat returns a logprob for each token of the rendered prompt."""
    answer = client.chat.completions.create(
        model=MODEL, messages=QUESTION, max_tokens=1, extra_body={"prompt_logprobs": 0}
    )
    assert len(answer.prompt_logprobs) == answer.usage.prompt_tokens
    assert [each is None for each in answer.prompt_logprobs[:2]] == [True, False]
    assert all(len(each) == 1 for each in answer.prompt_logprobs[1:])


def chat(client: Any, **extra: Any) -> Any:
    return client.chat.completions.create(
        model=MODEL, messages=extra.pop("messages", QUESTION), temperature=0, max_tokens=40, extra_body=extra
    )


def prompt_of(client: Any, **fields: Any) -> str:
    """Return the prompt of a chat with these fields, decoded from its tokens."""
    body = {"model": MODEL, "messages": QUESTION, **fields}
    found = client.post("/tokenize", cast_to=httpx.Response, body=body).json()
    assert found["count"] == len(found["tokens"])
    return TOKENIZER.decode(found["tokens"], skip_special_tokens=False)


def test_template_options_change_the_prompt(client: Any) -> None:
    """The request's template options change the prompt, and the chat reports the same prompt tokens."""
    header = "<|im_start|>assistant\n"
    plain = prompt_of(client)
    assert plain.endswith(header + "<think>\n\n</think>\n\n")
    assert prompt_of(client, chat_template_kwargs={"enable_thinking": True}).endswith(header)
    assert prompt_of(client, chat_template_kwargs={"nobody_knows": 1}) == plain
    assert prompt_of(client, add_generation_prompt=False) == plain.partition(header)[0]
    begun = prompt_of(client, messages=BEGUN, continue_final_message=True, add_generation_prompt=False)
    assert begun.endswith("I am")
    for fields, prompt in (
        ({"chat_template_kwargs": {"enable_thinking": True}}, None),
        ({"add_generation_prompt": False}, None),
        ({"messages": BEGUN, "continue_final_message": True}, begun),
    ):
        found = chat(client, **fields, return_token_ids=True).prompt_token_ids
        assert TOKENIZER.decode(found, skip_special_tokens=False) == (prompt or prompt_of(client, **fields))


def test_echo_returns_the_complete_turn(client: Any) -> None:
    """With `echo` the answer contains the begun turn and its continuation, also when streamed."""
    fields: dict[str, Any] = {"messages": BEGUN, "continue_final_message": True}
    rest, whole = text_of(chat(client, **fields)), text_of(chat(client, **fields, echo=True))
    assert rest
    assert whole == f"I am{rest}"
    stream = client.chat.completions.create(
        model=MODEL, temperature=0, max_tokens=40, stream=True, messages=BEGUN,
        extra_body={"continue_final_message": True, "echo": True},
    )  # fmt: skip
    assert "".join(map(text_of, stream)) == whole


def test_reasoning_is_limited_by_tokens_and_effort(client: Any) -> None:
    """Reasoning is limited by tokens and by effort; excluded reasoning still counts."""
    thought = chat(client, reasoning={"max_tokens": 8})
    assert 0 < thought.usage.completion_tokens_details.reasoning_tokens <= 8 + 8  # including the markers
    assert thought.choices[0].message.reasoning == thought.choices[0].message.reasoning_content
    hidden = chat(client, reasoning={"max_tokens": 8, "exclude": True})
    assert hidden.usage.completion_tokens_details.reasoning_tokens > 0
    assert not hasattr(hidden.choices[0].message, "reasoning_content")
    assert text_of(hidden) == text_of(thought)
    for none in ({"enabled": False}, {"effort": "none"}):
        assert chat(client, reasoning=none).usage.completion_tokens_details.reasoning_tokens == 0
    assert chat(client, reasoning={"enabled": True}).usage.completion_tokens_details.reasoning_tokens > 0


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
def test_invalid_values_are_rejected_by_name(ask: Any, fields: dict[str, Any], param: str, text: str) -> None:
    """An invalid value raises the client's BadRequestError with the client's field name."""
    with pytest.raises(openai.BadRequestError) as caught:
        ask(**fields)
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
def test_invalid_values_of_chats_are_rejected_by_name(client: Any, fields: dict[str, Any], param: str) -> None:
    """An invalid value of a chat raises BadRequestError with the client's field name."""
    with pytest.raises(openai.BadRequestError) as caught:
        chat(client, **fields)
    assert caught.value.param == param


def test_every_model_tokenizes_and_detokenizes(client: Any, stack: Stack) -> None:
    """Every model tokenizes and detokenizes under both paths, and an unknown token is reported with its index."""
    for base in (stack.door, f"{stack.door}/v1"):
        for model in (MODEL, "all-minilm-l6-v2"):
            body = {"model": model, "prompt": "Hello!", "return_token_strs": True}
            found = httpx.post(f"{base}/tokenize", json=body, timeout=GUARD_S).json()
            assert found["count"] == len(found["tokens"]) == len(found["token_strs"]) > 0
            joined = httpx.post(
                f"{base}/detokenize", json={"model": model, "tokens": found["tokens"]}, timeout=GUARD_S
            ).json()
            assert "hello" in joined["prompt"].lower()
    with pytest.raises(openai.BadRequestError) as caught:
        client.post("/detokenize", cast_to=httpx.Response, body={"model": MODEL, "tokens": [5, 70_000]})
    assert caught.value.param == "tokens.1"


def test_counted_input_tokens_equal_the_responses_usage(client: Any) -> None:
    """The client's token count equals the input tokens that the response then uses."""
    tool = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
    fields: dict[str, Any] = {"model": MODEL, "input": "What is the capital of France?", "instructions": "Be kind."}
    for more in ({}, {"tools": [tool]}):
        counted = client.responses.input_tokens.count(**fields, **more)
        made = client.responses.create(**fields, **more, max_output_tokens=1)
        assert (counted.object, counted.input_tokens) == ("response.input_tokens", made.usage.input_tokens)


def test_template_variables_reach_the_template_of_a_response(stack: Stack) -> None:
    """Variables reach the template of a response, too: one more of them changes the number of its tokens."""
    body = {"model": MODEL, "input": "Hello! Who are you?"}

    def count(**fields: Any) -> Any:
        answer = httpx.post(f"{stack.door}/v1/responses/input_tokens", json=body | fields, timeout=GUARD_S)
        return answer.json()

    plain = count()["input_tokens"]
    assert count(chat_template_kwargs={"enable_thinking": True})["input_tokens"] < plain
    assert count(chat_template_kwargs={"nobody_knows": 1})["input_tokens"] == plain
    assert count(chat_template_kwargs={"messages": []})["error"]["param"] == "chat_template_kwargs"


@pytest.mark.parametrize(
    "wanted",
    [
        {"type": "json", "value": SCHEMA},
        {"type": "json_object", "value": SCHEMA},
        {"type": "json_schema", "value": {"name": "trip", "schema": SCHEMA}},
        {"type": "json_schema", "value": {"schema": SCHEMA}},
    ],
)
def test_tgi_schema_formats_constrain_the_answer(client: Any, wanted: dict[str, Any]) -> None:
    """Each of TGI's forms of a schema constrains the answer."""
    jsonschema.validate(json.loads(text_of(chat(client, response_format=wanted, max_tokens=100))), SCHEMA)
