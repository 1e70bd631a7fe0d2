"""Tools in chats of the open inference protocol: requests to the contract's, and calls to tensors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf import text_format
from sluice.inference import inference_pb2
from sluice.v1 import chat_pb2, tool_pb2

from service.calls.errors import InvalidMessage
from service.contract.inference.answers import Responses
from service.contract.inference.requests import Inference, to_inference
from service.generation.errors import InvalidRequest
from tests.service.servicers.inference.test_infer import request_of, texts_of

SCHEMA = {"type": "object", "properties": {"x": {"type": "number"}}}
LOOK = {"name": "look", "description": "Looks.", "parameters": SCHEMA, "strict": True}
TOOLS = json.dumps([{"type": "function", "function": LOOK}, {"type": "function", "function": {"name": "go"}}])
CALLS = [
    {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"x": 1}'}},
    {"id": "call_2", "type": "function", "function": {"name": "go", "arguments": "{}"}},
]
STREAM = [
    'started { id: "1" model: "m" }',
    'content_delta { text: "Let me see." }',
    'tool_call_delta { tool_call_index: 0 id: "call_1" name: "look" }',
    r'tool_call_delta { tool_call_index: 0 arguments: "{\"x\":" }',
    r'tool_call_delta { tool_call_index: 0 arguments: " 1}" }',
    'tool_call_delta { tool_call_index: 1 id: "call_2" name: "go" arguments: "{}" }',
    "choice_finished { finish_reason: FINISH_REASON_TOOL_CALLS }",
    "usage { prompt_tokens: 3 completion_tokens: 4 }",
    "completed {}",
]


def chat_of(outputs: list[str] | None = None, **parameters: Any) -> inference_pb2.ModelInferRequest:
    """Return the request for a chat with these parameters and outputs."""
    request = request_of(name="messages", text='[{"role": "user", "content": "hi"}]', parameters=parameters)
    for name in outputs or ():
        request.outputs.add(name=name)
    return request


def chat(outputs: list[str] | None = None, **parameters: Any) -> tuple[chat_pb2.ChatRequest, Inference]:
    """Return the contract's request, and the inference that it belongs to."""
    inference = to_inference(chat_of(outputs, **parameters), makes_vectors=False)
    assert isinstance(inference.request, chat_pb2.ChatRequest)
    return inference.request, inference


def test_tools_become_the_contracts() -> None:
    """A function keeps its schema as text; the choice is a mode, or names a function."""
    request, _ = chat(tools=TOOLS, tool_choice="required", parallel_tool_calls=False)
    assert [tool.function.name for tool in request.tools] == ["look", "go"]
    function = request.tools[0].function
    assert (function.description, json.loads(function.parameters), function.strict) == ("Looks.", SCHEMA, True)
    assert not request.tools[1].function.parameters
    assert request.tool_choice.mode == tool_pb2.TOOL_CHOICE_MODE_REQUIRED
    assert not request.parallel_tool_calls
    named = json.dumps({"type": "function", "function": {"name": "go"}})
    assert chat(tools=TOOLS, tool_choice=named)[0].tool_choice.function_name == "go"


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"tools": "["}, 'parameters["tools"]'),
        ({"tools": "{}"}, 'parameters["tools"]'),
        ({"tools": json.dumps([5])}, 'parameters["tools"][0]'),
        ({"tools": json.dumps([{"type": "x"}])}, 'parameters["tools"][0].type'),
        ({"tools": json.dumps([{"type": "function", "function": {}}])}, 'parameters["tools"][0].function.name'),
        ({"tools": TOOLS.replace('"go"', '"g o"')}, 'parameters["tools"][1].function.name'),
        ({"tools": TOOLS.replace('"go"', '"\\ud800"')}, 'parameters["tools"][1]'),
        ({"tools": json.dumps(json.loads(TOOLS)[:1] * 129)}, 'parameters["tools"]'),
        ({"tools": TOOLS, "tool_choice": "some"}, 'parameters["tool_choice"]'),
        ({"tools": TOOLS, "tool_choice": '{"type": "function", "function": {"name": 5}}'},
         'parameters["tool_choice"].function.name'),
    ],
)  # fmt: skip
def test_wrong_tools_are_rejected_by_their_path(parameters: dict[str, Any], field: str) -> None:
    """The error names the parameter, and the place in its JSON."""
    with pytest.raises((InvalidRequest, InvalidMessage)) as rejected:
        chat(**parameters)
    error: Any = rejected.value
    assert [error.field] if isinstance(error, InvalidRequest) else [each.field for each in error.violations] == [field]


def answers(inference: Inference) -> list[dict[str, Any]]:
    """Return the tensors of a whole answer with calls, and of the last response of its stream."""
    request = chat_of()
    whole = chat_pb2.ChatResponse(id="1", model="m", usage={"prompt_tokens": 3})
    choice = whole.choices.add(finish_reason=chat_pb2.FINISH_REASON_TOOL_CALLS)
    for call in CALLS:
        choice.message.tool_calls.add(id=call["id"], function=call["function"])
    responses = Responses(request, inference, "1")
    events = [text_format.Parse(text, chat_pb2.StreamChatResponse()) for text in STREAM]
    streamed = [response for event in events for response in responses.streamed(event)]
    assert texts_of(streamed[0]) == {"text_output": "Let me see."}
    assert len(streamed) == 2
    return [texts_of(Responses(request, inference, "1").generated(whole)), texts_of(streamed[-1])]


def test_calls_are_a_tensor_of_an_answer_and_of_a_streams_end() -> None:
    """They are returned for a request with tools, or with outputs that name them."""
    for inference in (chat(tools=TOOLS)[1], chat(outputs=["tool_calls"])[1]):
        for found in answers(inference):
            assert json.loads(found["tool_calls"]) == CALLS
    for inference in (chat()[1], chat(outputs=["text_output"], tools=TOOLS)[1]):
        assert [found.keys() for found in answers(inference)] == [{"text_output"}] * 2


def test_texts_have_no_tools() -> None:
    """A prompt that is no chat rejects the parameter by name."""
    with pytest.raises(InvalidRequest) as rejected:
        to_inference(request_of(parameters={"tools": TOOLS}), makes_vectors=False)
    assert rejected.value.field == 'parameters["tools"]'
