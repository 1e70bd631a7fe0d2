"""Statements of the reference documents about the dialects hold in the whole product through Envoy."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from service.settings.bundled_models import DEMO_FOLDER
from tests.e2e.stack import Stack
from tests.waiting import GUARD_S

MODEL = "sluice-demo"
MESSAGES = [{"role": "user", "content": "What is the capital of France?"}]
AZURE = "/models/chat/completions?api-version=2024-05-01-preview"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}}, "required": ["city"]}
JSON = {"accept": "application/json"}


def post(stack: Stack, path: str, body: dict[str, Any], **headers: str) -> httpx.Response:
    """Return the response of the public listener."""
    return httpx.post(stack.url + path, json=body, headers=headers, timeout=GUARD_S)


def events(answer: httpx.Response) -> list[dict[str, Any]]:
    """Return the parsed events of a stream."""
    assert answer.status_code == 200, answer.text
    lines = [line.removeprefix("data:") for line in answer.text.splitlines() if line.startswith("data:")]
    return [json.loads(line) for line in lines if line.strip() != "[DONE]"]


@pytest.fixture(scope="module")
def thinking() -> Iterator[Stack]:
    """The bundled model, served without model settings, like any model that can reason."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLUICE_SERVICE_MODELS", json.dumps([{"name": MODEL, "path": str(DEMO_FOLDER)}]))
        stack = Stack()
    try:
        stack.wait_for("sluice is ready.")
        yield stack
    finally:
        assert stack.stop() == 0, stack.output


def test_chunks_of_an_invoked_completion_have_their_choice_index(stack: Stack) -> None:
    """The chunks of each `choice_index` add up to one choice of the unstreamed answer, for several prompts and n."""
    body = {"prompt": ["One, two,", "Red, green,"], "n": 2, "seed": 5, "max_tokens": 6, "use_raw_prompt": True}
    path = f"/serving-endpoints/{MODEL}/invocations"
    whole = post(stack, path, body, **JSON).json()["choices"]
    assert [(each["index"], each["choice_index"]) for each in whole] == [(0, 0), (0, 1), (1, 2), (1, 3)]
    streamed: dict[tuple[int, int], str] = defaultdict(str)
    for event in events(post(stack, path, body)):
        for choice in event["choices"]:
            streamed[choice["index"], choice["choice_index"]] += choice["text"]
    assert streamed == {(each["index"], each["choice_index"]): each["text"] for each in whole}


def test_invocations_accept_responses(stack: Stack) -> None:
    """A body with input items or fields of the Responses API is answered as a response.

    A bare text is rejected with a hint.
    """
    path = f"/serving-endpoints/{MODEL}/invocations"
    for body in ({"input": "Hi", "max_output_tokens": 5}, {"input": [{"role": "user", "content": "Hi"}]}):
        answer = post(stack, path, body)
        assert (answer.json()["object"], answer.json()["model"]) == ("response", MODEL)
    assert events(post(stack, path, {"input": "Hi", "stream": True}))[-1]["type"] == "response.completed"
    refused = post(stack, path, {"input": "Hi"})
    assert refused.status_code == 400
    assert "/serving-endpoints/responses" in refused.json()["message"]
    answer = post(stack, "/serving-endpoints/all-minilm-l6-v2/invocations", {"input": "Hi"})
    assert answer.json()["data"][0]["object"] == "embedding"


def test_effort_of_databricks_paths_is_medium(thinking: Stack) -> None:
    """The effort of a reasoning model defaults to medium on Databricks paths, and responses echo it.

    On other paths the chat template decides.
    """
    body = {"messages": MESSAGES, "max_tokens": 60, "temperature": 0}
    answer = post(thinking, f"/serving-endpoints/{MODEL}/invocations", body, **JSON).json()
    assert answer["reasoning_effort"] == "medium"
    assert answer["usage"]["reasoning_tokens"] > 0
    chunks = events(post(thinking, f"/serving-endpoints/{MODEL}/invocations", body))
    assert {chunk["reasoning_effort"] for chunk in chunks} == {"medium"}
    off = post(thinking, f"/serving-endpoints/{MODEL}/invocations", {**body, "reasoning_effort": "none"}, **JSON)
    assert (off.json()["reasoning_effort"], off.json()["usage"]["reasoning_tokens"]) == ("none", 0)
    plain = post(thinking, "/v1/chat/completions", {**body, "model": MODEL}).json()
    assert plain["usage"]["reasoning_tokens"] == 0
    for path, effort in (("/serving-endpoints/responses", "medium"), ("/v1/responses", None)):
        response = post(thinking, path, {"model": MODEL, "input": "Hi", "max_output_tokens": 60}).json()
        assert response["reasoning"]["effort"] == effort
        assert (response["usage"]["output_tokens_details"]["reasoning_tokens"] > 0) == (effort is not None)


def test_bundled_model_keeps_its_templates_effort(stack: Stack) -> None:
    """The bundled model's settings disable the default effort, since the model is too small to reason well."""
    answer = post(stack, f"/serving-endpoints/{MODEL}/invocations", {"messages": MESSAGES, "max_tokens": 9}, **JSON)
    assert "reasoning_effort" not in answer.json()
    assert answer.json()["usage"]["reasoning_tokens"] == 0


def prompt_tokens(stack: Stack, **json_schema: Any) -> int:
    """Return the number of prompt tokens of a chat that requires JSON of a schema."""
    expected = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA, **json_schema}}
    body = {"model": MODEL, "messages": MESSAGES, "max_tokens": 40, "response_format": expected}
    answer = post(stack, "/v1/chat/completions", body).json()
    return int(answer["usage"]["prompt_tokens"])


def test_schema_and_description_reach_the_prompt(stack: Stack, thinking: Stack) -> None:
    """The prompt contains the schema and its description, unless the model's settings exclude them."""
    plain = post(thinking, "/v1/chat/completions", {"model": MODEL, "messages": MESSAGES, "max_tokens": 1}).json()
    without = plain["usage"]["prompt_tokens"]
    with_schema = prompt_tokens(thinking)
    assert without < with_schema < prompt_tokens(thinking, description="Where it is, in words.")
    assert prompt_tokens(stack) == prompt_tokens(stack, description="Where it is, in words.") == without


def test_azures_documented_parts_and_names_are_accepted(stack: Stack) -> None:
    """Azure's `content` parts, unknown model names and, with `ignore`, unknown fields at every depth are accepted."""
    part = {"type": "text", "content": "What is the capital of France?"}
    body = {"model": "gpt-9", "messages": [{"role": "user", "content": [part]}], "temperature": 0, "max_tokens": 20}
    answer = post(stack, AZURE, body).json()
    assert answer["model"] == MODEL
    plain = post(stack, AZURE, {**body, "messages": MESSAGES}).json()
    assert answer["choices"][0]["message"] == plain["choices"][0]["message"]
    tool = {"type": "function", "function": {"name": "f", "wings": 2}}
    refused = post(stack, AZURE, {**body, "tools": [tool]})
    assert (refused.status_code, refused.json()["param"]) == (400, "tools.0.function.wings")
    ignored = post(stack, AZURE, {**body, "tools": [tool]}, **{"extra-parameters": "ignore"})
    assert ignored.status_code == 200
    image = post(stack, AZURE, {"messages": [{"role": "user", "content": [{"type": "image", "content": "https://x"}]}]})
    assert (image.status_code, image.json()["detail"]["loc"]) == (422, ["messages", "0", "content", "0", "content"])


def test_mindie_reports_the_finish_reason(stack: Stack) -> None:
    """The last event and an unstreamed answer have the finish reason, and a priority above the key's is rejected."""
    path, body = f"/v2/models/{MODEL}/generate", {"text_input": "One, two,", "parameters": {"max_new_tokens": 3}}
    assert post(stack, path, body).json()["finish_reason"] == "length"
    *others, last = events(post(stack, f"{path}_stream", body))
    assert last["finish_reason"] == "length"
    assert all("finish_reason" not in event for event in others)
    taken = post(stack, path, {**body, "parameters": {"max_new_tokens": 3, "priority": 5, "timeout": 60}})
    assert taken.status_code == 200
    for parameters, text in (
        ({"priority": 1}, "parameters.priority: 1 is more urgent than the caller's key allows"),
        ({"temperature": 3}, "parameters.temperature: must be above 0 and at most 2"),
    ):
        refused = post(stack, path, {**body, "parameters": parameters})
        assert (refused.status_code, refused.json()["error"]) == (400, text)


@pytest.mark.parametrize("path", ["/v1/responses", "/serving-endpoints/responses"])
def test_response_has_completion_time_and_service_tier(stack: Stack, path: str) -> None:
    """A response reports its completion time and service tier, and respects `max_tool_calls`."""
    tool = {"type": "function", "name": "get_weather", "parameters": SCHEMA}
    body = {"model": MODEL, "input": "Weather in Oslo?", "tools": [tool], "tool_choice": "required"}
    response = post(stack, path, {**body, "max_tool_calls": 1, "temperature": 0}).json()
    free = post(stack, path, {**body, "temperature": 0}).json()
    assert response["max_tool_calls"] == 1
    calls = [[item["arguments"] for item in each["output"]] for each in (response, free)]
    assert calls[0] == calls[1]
    assert response["completed_at"] >= response["created_at"]
    assert (response["service_tier"], response["presence_penalty"]) == ("default", 0)


def test_a_formats_invalid_name_is_rejected_by_field(stack: Stack) -> None:
    """The error names the client's field and the allowed characters."""
    expected = {"type": "json_schema", "name": "a b", "schema": SCHEMA}
    answer = post(stack, "/v1/responses", {"model": MODEL, "input": "Hi", "text": {"format": expected}})
    assert answer.status_code == 400
    assert (
        answer.json()["error"]["message"] == "text.format.name: must be 1 to 64 letters, digits, underscores and dashes"
    )
