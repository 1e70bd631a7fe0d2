"""Token ids, usage and logprobs by request fields of other servers, and the tokenization of texts, through Envoy."""

from __future__ import annotations

import math
from typing import Any

import httpx
import openai
import pytest

from tests.e2e.clients.extension_requests import MODEL, QUESTION, text_of
from tests.e2e.stack import Stack
from tests.waiting import GUARD_S

EACH: Any = {"include_usage": True, "continuous_usage_stats": True}


def test_token_ids_detokenize_to_the_text(generate: Any, openai_client: Any) -> None:
    """Token ids are the same streamed and unstreamed, include the prompt's, and `/detokenize` returns their text."""
    whole = generate(return_token_ids=True)
    (choice,) = whole.choices
    prompt = getattr(whole, "prompt_token_ids", None) or choice.prompt_token_ids
    assert len(prompt) == whole.usage.prompt_tokens
    assert len(choice.token_ids) == whole.usage.completion_tokens
    joined = openai_client.post(
        "/detokenize",
        cast_to=httpx.Response,
        body={"model": MODEL, "tokens": choice.token_ids, "skip_special_tokens": True},
    )
    assert joined.json()["prompt"] == text_of(whole)
    streamed: list[int] = []
    for chunk in generate(return_token_ids=True, stream=True):
        (piece,) = chunk.choices
        streamed += getattr(piece, "token_ids", None) or []
    assert streamed == choice.token_ids


def test_usage_of_chunks_grows_to_the_total(generate: Any) -> None:
    """The usage of chunks increases up to the usage of the whole answer."""
    *chunks, last = generate(stream=True, stream_options=EACH)
    counts = [chunk.usage.completion_tokens for chunk in chunks]
    assert counts == sorted(counts)
    assert counts[0] > 0
    assert counts[-1] == last.usage.completion_tokens
    assert {chunk.usage.prompt_tokens for chunk in chunks} == {last.usage.prompt_tokens}
    assert all(each.usage.total_tokens == each.usage.prompt_tokens + each.usage.completion_tokens for each in chunks)


def test_prompt_logprobs_equal_those_of_an_echo(openai_client: Any) -> None:
    """The prompt's logprobs equal those of a completion's echo, and the most likely token has rank 1."""
    fields: dict[str, Any] = {"model": MODEL, "prompt": "One, two, three,", "temperature": 0, "max_tokens": 1}
    answer = openai_client.completions.create(**fields, extra_body={"prompt_logprobs": 2, "return_token_ids": True})
    echoed = openai_client.completions.create(**fields, echo=True, logprobs=2)
    (choice,) = answer.choices
    first, *others = choice.prompt_logprobs
    assert first is None
    logprobs = [entry[str(each)]["logprob"] for entry, each in zip(others, choice.prompt_token_ids[1:], strict=True)]
    expected = echoed.choices[0].logprobs.token_logprobs[1 : len(logprobs) + 1]
    assert all(math.isclose(a, b, abs_tol=1e-4) for a, b in zip(logprobs, expected, strict=True))
    for entry in others:
        ranked = sorted((e for e in entry.values() if e["rank"]), key=lambda e: int(e["rank"]))
        assert [each["rank"] for each in ranked] == [1, 2]
        assert ranked[0]["logprob"] >= ranked[1]["logprob"]
    assert "".join(entry[str(i)]["decoded_token"] for entry, i in zip(others, choice.prompt_token_ids[1:], strict=True))


def test_chat_returns_its_prompts_logprobs(openai_client: Any) -> None:
    """A chat returns a logprob for each token of the rendered prompt."""
    answer = openai_client.chat.completions.create(
        model=MODEL, messages=QUESTION, max_tokens=1, extra_body={"prompt_logprobs": 0}
    )
    assert len(answer.prompt_logprobs) == answer.usage.prompt_tokens
    assert [each is None for each in answer.prompt_logprobs[:2]] == [True, False]
    assert all(len(each) == 1 for each in answer.prompt_logprobs[1:])


def test_every_model_tokenizes_and_detokenizes(openai_client: Any, stack: Stack) -> None:
    """Every model tokenizes and detokenizes under both paths, and an unknown token is reported with its index."""
    for base in (stack.url, f"{stack.url}/v1"):
        for model in (MODEL, "all-minilm-l6-v2"):
            body = {"model": model, "prompt": "Hello!", "return_token_strs": True}
            found = httpx.post(f"{base}/tokenize", json=body, timeout=GUARD_S).json()
            assert found["count"] == len(found["tokens"]) == len(found["token_strs"]) > 0
            joined = httpx.post(
                f"{base}/detokenize", json={"model": model, "tokens": found["tokens"]}, timeout=GUARD_S
            ).json()
            assert "hello" in joined["prompt"].lower()
    with pytest.raises(openai.BadRequestError) as caught:
        openai_client.post("/detokenize", cast_to=httpx.Response, body={"model": MODEL, "tokens": [5, 70_000]})
    assert caught.value.param == "tokens.1"


def test_counted_input_tokens_equal_the_responses_usage(openai_client: Any) -> None:
    """The client's token count equals the input tokens that the response then uses."""
    tool = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
    fields: dict[str, Any] = {"model": MODEL, "input": "What is the capital of France?", "instructions": "Be kind."}
    for more in ({}, {"tools": [tool]}):
        counted = openai_client.responses.input_tokens.count(**fields, **more)
        made = openai_client.responses.create(**fields, **more, max_output_tokens=1)
        assert (counted.object, counted.input_tokens) == ("response.input_tokens", made.usage.input_tokens)


def test_template_variables_reach_the_template_of_a_response(stack: Stack) -> None:
    """Variables reach the template of a response, too: one more of them changes the number of its tokens."""
    body = {"model": MODEL, "input": "Hello! Who are you?"}

    def count(**fields: Any) -> Any:
        answer = httpx.post(f"{stack.url}/v1/responses/input_tokens", json=body | fields, timeout=GUARD_S)
        return answer.json()

    plain = count()["input_tokens"]
    assert count(chat_template_kwargs={"enable_thinking": True})["input_tokens"] < plain
    assert count(chat_template_kwargs={"nobody_knows": 1})["input_tokens"] == plain
    assert count(chat_template_kwargs={"messages": []})["error"]["param"] == "chat_template_kwargs"
