"""The official OpenAI client's responses, unchanged except for the base URL, through Envoy."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import openai
import pydantic
import pytest
from openai.types.responses import Response

from tests.e2e.stack import Stack

MODEL = "sluice-demo"
QUESTION = "What is the capital of France?"
GREEDY: dict[str, Any] = {"model": MODEL, "temperature": 0, "max_output_tokens": 200}
WEATHER: dict[str, Any] = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the current weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}


class Place(pydantic.BaseModel):
    """The type of a structured answer."""

    city: str
    population: int


@pytest.fixture(params=["v1", "serving-endpoints"])
def client(stack: Stack, request: pytest.FixtureRequest) -> Iterator[Any]:  # its overloads know only OpenAI's models
    """An OpenAI client of each base URL that has responses."""
    with openai.OpenAI(base_url=f"{stack.url}/{request.param}", api_key="unused", max_retries=0) as client:
        yield client


def test_streamed_and_unstreamed_responses_are_equal(client: Any) -> None:
    """`create`, its stream and the stream helper return the same text, usage and effective values."""
    whole = client.responses.create(**GREEDY, input=QUESTION, instructions="Be kind.", metadata={"run": "7"})
    Response.model_validate(whole.model_dump())
    assert (whole.status, whole.model, whole.instructions, whole.metadata) == (
        "completed", MODEL, "Be kind.", {"run": "7"},
    )  # fmt: skip
    assert whole.output_text
    assert whole.usage.total_tokens == whole.usage.input_tokens + whole.usage.output_tokens > 0
    events = list(client.responses.create(**GREEDY, input=QUESTION, instructions="Be kind.", stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type for event in events][:2] == ["response.created", "response.in_progress"]
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == whole.output_text
    assert events[-1].response.output_text == whole.output_text
    assert events[-1].response.usage.output_tokens == whole.usage.output_tokens
    with client.responses.stream(**GREEDY, input=QUESTION, instructions="Be kind.") as stream:
        for event in stream:
            if event.type == "response.output_text.done":
                assert event.text == whole.output_text
        assert stream.get_final_response().output_text == whole.output_text


def test_parse_returns_the_clients_type(client: Any) -> None:
    """`parse` and the stream helper return the answer as an object of the client's own type."""
    fields = {**GREEDY, "input": "Tell me about Oslo.", "text_format": Place}
    parsed = client.responses.parse(**fields)
    assert isinstance(parsed.output_parsed, Place)
    with client.responses.stream(**fields) as stream:
        assert stream.get_final_response().output_parsed == parsed.output_parsed


def test_call_and_its_output_can_be_sent_back(client: Any) -> None:
    """A required call matches its schema, and its output can be sent back with the answer's items."""
    items: list[Any] = [{"role": "user", "content": "How is the weather in Oslo?"}]
    first = client.responses.create(**GREEDY, input=items, tools=[WEATHER], tool_choice="required", max_tool_calls=1)
    (call,) = [item for item in first.output if item.type == "function_call"]
    assert (call.name, list(json.loads(call.arguments))) == ("get_weather", ["city"])
    items += first.output
    items.append({"type": "function_call_output", "call_id": call.call_id, "output": '{"temperature": 3}'})
    second = client.responses.create(**GREEDY, input=items, tools=[WEATHER], tool_choice="none")
    assert (second.status, [item.type for item in second.output][-1]) == ("completed", "message")
    named = {"type": "function", "name": "get_weather"}
    with client.responses.stream(**GREEDY, input="Rain?", tools=[WEATHER], tool_choice=named) as stream:
        done = [event for event in stream if event.type == "response.function_call_arguments.done"]
    assert [event.name for event in done] == ["get_weather"]


def test_response_has_logprobs_and_incomplete_reason(client: Any) -> None:
    """Logprobs are returned on request, and an incomplete response has its reason."""
    cut = client.responses.create(
        **GREEDY | {"max_output_tokens": 3}, input=QUESTION, include=["message.output_text.logprobs"], top_logprobs=2
    )
    assert (cut.status, cut.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert cut.usage.output_tokens == 3
    tokens = [each for item in cut.output if item.type == "message" for each in item.content[0].logprobs]
    assert all(len(each.top_logprobs) == 2 for each in tokens)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"temperature": 3}, openai.BadRequestError, "temperature"),
        ({"input": []}, openai.BadRequestError, "input"),
        ({"background": True, "store": False}, openai.BadRequestError, "background"),
        ({"previous_response_id": "resp_1"}, openai.NotFoundError, "previous_response_id"),
        ({"tools": [{"type": "web_search"}]}, openai.BadRequestError, "tools.0.type"),
        ({"input": [{"type": "function_call_output", "call_id": "x", "output": ""}]}, openai.BadRequestError,
         "input.0.call_id"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "https://x/y.png"}]}]},
         openai.BadRequestError, "input.0.content.0.image_url"),
        ({"input": "word " * 4000}, openai.BadRequestError, "2047"),
        ({"model": "nobody"}, openai.NotFoundError, "nobody"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("stream", [False, True])
def test_errors_name_the_field(
    client: Any, change: dict[str, Any], error: type[openai.APIStatusError], text: str, *, stream: bool
) -> None:
    """An invalid value raises the client's typed error with the client's field name, streamed or not."""
    with pytest.raises(error) as caught:
        client.responses.create(**GREEDY | {"input": QUESTION} | change, stream=stream)
    body: Any = caught.value.response.json()
    assert text in json.dumps(body)


def test_custom_tools_are_called_with_text(client: Any) -> None:
    """The input matches the tool's expression, streamed and whole, and the call and its output are valid history."""
    grammar = {"type": "grammar", "syntax": "regex", "definition": '"[a-c]{3}"\\n'}
    tools = [{"type": "custom", "name": "spell", "description": "Spell a word.", "format": grammar}]
    options: dict[str, Any] = {**GREEDY, "tools": tools, "parallel_tool_calls": False}
    whole = client.responses.create(**options, input="Spell it.", tool_choice="required")
    (call,) = [item for item in whole.output if item.type == "custom_tool_call"]
    assert re.fullmatch('"[a-c]{3}"\n', call.input)
    events = list(client.responses.create(**options, input="Spell it.", tool_choice="required", stream=True))
    deltas = [event.delta for event in events if event.type == "response.custom_tool_call_input.delta"]
    (done,) = [event for event in events if event.type == "response.custom_tool_call_input.done"]
    assert "".join(deltas) == done.input == call.input
    output = {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "Well done."}
    history = [{"role": "user", "content": "Spell it."}, *(item.to_dict() for item in whole.output), output]
    assert client.responses.create(**options, input=history).status


KNOWN_CALLS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "local_shell": ({"action": {"type": "exec", "command": ["ls"], "env": {}}}, {"output": "a.py"}),
    "shell": (
        {"action": {"commands": ["ls"]}},
        {"output": [{"stdout": "a.py", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]},
    ),
    "apply_patch": ({"operation": {"type": "delete_file", "path": "a.py"}}, {"status": "completed", "output": "Done."}),
}


@pytest.mark.parametrize("kind", list(KNOWN_CALLS))
def test_shells_and_patches_have_items_of_their_own(client: Any, kind: str) -> None:
    """A call has the item of its tool once it is complete, streamed and whole, and calls with results are history."""
    options: dict[str, Any] = {**GREEDY, "tools": [{"type": kind}], "parallel_tool_calls": False}
    demanding: dict[str, Any] = {**options, "input": "What is in my files?", "tool_choice": {"type": kind}}
    (call,) = client.responses.create(**demanding).output
    assert call.type == (f"{kind}_call" if call.status == "completed" else "function_call")
    events = list(client.responses.create(**demanding, stream=True))
    (added,) = [event.item for event in events if event.type == "response.output_item.added"]
    (done,) = [event.item for event in events if event.type == "response.output_item.done"]
    differing = {"id", "call_id", "status"}
    assert done.to_dict().keys() == added.to_dict().keys()
    for item in (added, done):
        assert {k: v for k, v in item.to_dict().items() if k not in differing} == {
            k: v for k, v in call.to_dict().items() if k not in differing
        }
    call_fields, output_fields = KNOWN_CALLS[kind]
    history = [
        {"role": "user", "content": "What is in my files?"},
        {"type": f"{kind}_call", "call_id": "c", "id": "i", "status": "completed", **call_fields},
        {"type": f"{kind}_call_output", "call_id": "c", **output_fields},
    ]
    assert client.responses.create(**options, input=history).status
