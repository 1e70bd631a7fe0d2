"""ResponseService on a real server: the order of a stream, its fold, invalid requests, and cancellation."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import grpc
import pytest
from google.protobuf import json_format
from sluice.v1 import response_event_pb2, response_item_pb2, response_pb2, response_pb2_grpc

from service.generation.caller import ANONYMOUS
from service.observability.health import ServingPhase
from tests.engine.fakes import until
from tests.service.cancellation import check_cancellation
from tests.service.contract.response_cases import check_order
from tests.service.deadlines import rejection_at_deadline
from tests.service.fakes import ENDLESS, MODEL, Running, ScriptedRunner, rejection_of, rest_of, running
from tests.service.preparation.fakes import preparation_of

METHODS = ["CreateResponse", "StreamResponse"]


def stub_of(run: Running) -> Any:
    return response_pb2_grpc.ResponseServiceStub(run.channel)


def message_item(text: str, role: str = "USER") -> dict[str, Any]:
    return {"message": {"role": f"ROLE_{role}", "content": [{"text": text}]}}


def response_request(**fields: Any) -> response_pb2.CreateResponseRequest:
    """Return a valid request, changed by `fields` in the contract's JSON."""
    return json_format.ParseDict(
        {"model": MODEL, "input": [message_item("hi")], **fields}, response_pb2.CreateResponseRequest()
    )


def text_of(events: list[response_event_pb2.StreamResponseResponse]) -> str:
    return "".join(event.output_text_delta.delta for event in events)


async def test_stream_response_sends_events_in_order_and_numbers_them() -> None:
    """A stream is one `created`, one `in_progress`, the items in order, and one final event with the whole response."""
    async with running(ScriptedRunner("hello")) as run:
        request = response_request(metadata={"run": "7"}, instructions="Be kind.")
        events = [event async for event in stub_of(run).StreamResponse(request)]
    check_order(events)
    assert text_of(events) == "hello"
    response = events[-1].completed.response
    assert (response.model, response.system_fingerprint, dict(response.metadata)) == (MODEL, "fp", {"run": "7"})
    assert response.status == response_item_pb2.RESPONSE_STATUS_COMPLETED
    assert response.usage.prompt_tokens == len("Be kind.hi")
    assert response.usage.completion_tokens == len("hello") + 1
    assert response.sampling.seed == 1
    assert events[0].created.response.id == response.id


async def test_create_response_is_the_fold_of_its_stream() -> None:
    """The response equals the one in the stream's final event, except for the values that are random per call."""
    async with running(ScriptedRunner("hello")) as run:
        stub = stub_of(run)
        whole = (await stub.CreateResponse(response_request())).response
        *_, last = [event async for event in stub.StreamResponse(response_request())]
    streamed = last.completed.response
    for response in (whole, streamed):
        assert response.output[0].id == f"msg_{response.id}_0"
        response.id = response.output[0].id = ""
        response.created.Clear()
        response.completed.Clear()
        response.usage.cached_tokens = 0
    assert whole == streamed


@pytest.mark.parametrize("method", METHODS)
async def test_response_truncated_by_max_output_tokens_is_incomplete(method: str) -> None:
    """max_output_tokens ends the response, which has this as its reason."""
    async with running(ScriptedRunner("hello")) as run:
        call = getattr(stub_of(run), method)(response_request(maxOutputTokens=2))
        response = [e async for e in call][-1].incomplete.response if method == METHODS[1] else (await call).response
    assert response.status == response.output[0].status == response_item_pb2.RESPONSE_STATUS_INCOMPLETE
    assert json_format.MessageToDict(response)["incompleteReason"] == "FINISH_REASON_LENGTH"
    assert response.output[0].message.content[0].text == "he"


BAD: list[tuple[dict[str, Any], str, str]] = [  # fields, the invalid field, its rule
    ({"model": ""}, "model", "string.min_len"),
    ({"input": []}, "input", "repeated.min_items"),
    ({"input": [{}]}, "input[0].item", "required"),
    ({"input": [{"message": {"role": "ROLE_TOOL"}}]}, "input[0].message.role", "enum.in"),
    ({"input": [{"functionCall": {"callId": "1", "name": "a b"}}]}, "input[0].function_call.name", "string.pattern"),
    ({"input": [{"functionCallOutput": {}}]}, "input[0].function_call_output.call_id", "string.min_len"),
    ({"maxOutputTokens": 0}, "max_output_tokens", "uint32.gte"),
    ({"maxToolCalls": 0}, "max_tool_calls", "uint32.gte"),
    ({"sampling": {"temperature": 3}}, "sampling.temperature", "float.gte_lte"),
    ({"logprobs": {"topLogprobs": 21}}, "logprobs.top_logprobs", "uint32.lte"),
    ({"toolChoice": {"mode": "TOOL_CHOICE_MODE_REQUIRED"}}, "tool_choice", "tool_choice.tools"),
    ({"tools": [{"function": {"name": "f"}}] * 2}, "tools", "tools.unique"),
    ({"metadata": {f"k{i}": "" for i in range(17)}}, "metadata", "map.max_pairs"),
    ({"serving": {"priority": 101}}, "serving.priority", "int32.gte_lte"),
]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("fields", "field", "rule"), BAD, ids=[row[1] + ":" + row[2] for row in BAD])
async def test_bad_request_is_rejected_by_its_field(method: str, fields: dict[str, Any], field: str, rule: str) -> None:
    """The error is INVALID_ARGUMENT with the field's path, before any event."""
    async with running() as run:
        rejection = await rejection_of(getattr(stub_of(run), method)(response_request(**fields)))
    assert rejection.code is grpc.StatusCode.INVALID_ARGUMENT
    assert (rejection.events, (field, rule)) == ([], rejection.fields[0])


@pytest.mark.parametrize(
    ("item", "field", "rule"),
    [
        (message_item("long " * 100), "input", "PROMPT_TOO_LONG"),
        (
            {"message": {"role": "ROLE_USER", "content": [{"file": {"url": "file.pdf"}}]}},
            "input[0].message.content[0].file",
            "UNSUPPORTED_MODALITY",
        ),
    ],
)
async def test_errors_of_the_conversation_name_the_items(item: dict[str, Any], field: str, rule: str) -> None:
    """Errors of preparation in the converted messages have the paths of the request's items."""
    async with running() as run:
        served = run.server.registry.visible_to(ANONYMOUS).generator(MODEL)
        run.server.registry.add(replace(served, preparation=preparation_of(max_model_len=128)))
        rejection = await rejection_of(stub_of(run).StreamResponse(response_request(input=[item], instructions="I")))
    assert rejection.events == []
    assert rejection.fields == [(field, rule)]


async def test_unknown_model_is_not_found() -> None:
    """The error names the requested model."""
    async with running() as run:
        rejection = await rejection_of(stub_of(run).CreateResponse(response_request(model="nobody")))
    assert (rejection.code, rejection.info.metadata["model"]) == (grpc.StatusCode.NOT_FOUND, "nobody")


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("method", METHODS)
async def test_cancelled_response_releases_everything(method: str, moment: str) -> None:
    """After a cancellation before or after the first token, streamed or not, everything is released."""
    await check_cancellation(lambda run: getattr(stub_of(run), method)(response_request()), moment)


@pytest.mark.parametrize("method", METHODS)
async def test_response_ends_at_the_callers_deadline(method: str) -> None:
    """The call ends with DEADLINE_EXCEEDED, and its generation stops."""
    async with running(ScriptedRunner("endless ", end=False), engine=ENDLESS) as run:
        call = getattr(stub_of(run), method)
        rejection = await rejection_at_deadline(
            lambda left_s: call(response_request(), timeout=left_s), run.runner.entered.is_set
        )
        assert rejection.code is grpc.StatusCode.DEADLINE_EXCEEDED
        await run.until_idle()


async def test_stream_response_sends_usage_before_an_error() -> None:
    """A failed generation sends the usage so far and then the status, without a final event."""
    runner = ScriptedRunner("hello", end=False)
    async with running(runner, engine=ENDLESS) as run:
        call = stub_of(run).StreamResponse(response_request())
        while not (await call.read()).HasField("output_text_delta"):
            pass
        runner.fail_with = RuntimeError("secret words of the engine")
        rejection: Any = await rejection_of(call)
    assert rejection.code is grpc.StatusCode.INTERNAL
    kinds = [event.WhichOneof("event") for event in rejection.events]
    assert kinds[-1] == "usage"
    assert not {"completed", "incomplete"} & set(kinds)
    assert rejection.events[-1].usage.completion_tokens > 0
    assert "secret" not in rejection.text


async def test_draining_server_ends_running_responses_and_rejects_new_ones() -> None:
    """A running stream continues to its end while new calls are rejected."""
    runner = ScriptedRunner("hello")
    async with running(runner) as run:
        with runner.paused(after=1):
            call = stub_of(run).StreamResponse(response_request())
            first = await call.read()
            stop = asyncio.create_task(run.server.drain())
            await until(lambda: run.server.health.phase is ServingPhase.DRAINING)
            rejection = await rejection_of(stub_of(run).CreateResponse(response_request()))
        rest: Any = rest_of(call)
        events = [first] + [event async for event in rest]
        await stop
    assert (rejection.code, rejection.info.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
    check_order(events)


@pytest.mark.parametrize("captures", [False, True])
async def test_response_span_has_content_only_with_capture_content(*, captures: bool) -> None:
    """The span has the attributes of a chat.

    Items and answer are recorded as messages only if the operator enables it.
    """
    items = [
        message_item("tulip"),
        {"reasoning": {"text": "hm"}},
        {"functionCall": {"callId": "1", "name": "f", "arguments": "{}"}},
        {"functionCallOutput": {"callId": "1", "output": "42"}},
    ]
    async with running(ScriptedRunner("hello"), capture_content=captures) as run:
        response = (await stub_of(run).CreateResponse(response_request(input=items, instructions="rose"))).response
        found = dict((await run.ended_spans(5))[f"chat {MODEL}"].attributes or {})
        everything = "".join(span.to_json() for span in run.spans.get_finished_spans())
    assert found["gen_ai.operation.name"] == "chat"
    assert found["gen_ai.response.id"] == response.id
    assert found["gen_ai.response.finish_reasons"] == ("stop",)
    assert found["gen_ai.usage.output_tokens"] == len("hello") + 1
    if not captures:
        assert not any(word in everything for word in ("tulip", "rose", "hello"))
        return
    assert json.loads(str(found["gen_ai.system_instructions"])) == [{"type": "text", "content": "rose"}]
    assert json.loads(str(found["gen_ai.input.messages"])) == [
        {"role": "user", "parts": [{"type": "text", "content": "tulip"}]},
        {"role": "assistant", "parts": [{"type": "reasoning", "content": "hm"}]},
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "1", "name": "f", "arguments": "{}"}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "response": "42"}]},
    ]
    assert json.loads(str(found["gen_ai.output.messages"])) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "hello"}], "finish_reason": "stop"}
    ]


@pytest.mark.parametrize(("num_keys", "length"), [(12, 300), (1, 100_000)])
async def test_error_for_long_metadata_keys_is_short(num_keys: int, length: int) -> None:
    """The status of keys that are too long contains little of them, because clients limit the size of trailers."""
    async with running() as run:
        metadata = {f"{number}" + "😀" * length: "v" for number in range(num_keys)}
        rejection = await rejection_of(stub_of(run).CreateResponse(response_request(metadata=metadata)))
    assert rejection.code is grpc.StatusCode.INVALID_ARGUMENT
    assert len(rejection.fields) == min(num_keys, 8)
    assert rejection.fields[0][0].startswith('metadata["')
    assert rejection.info.metadata["field"] == rejection.fields[0][0]
