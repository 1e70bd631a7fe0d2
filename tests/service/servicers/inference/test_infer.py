"""GRPCInferenceService on a real server: whole answers, streams, errors that name tensors, and cancellation."""

from __future__ import annotations

import asyncio
import json
import logging
import struct
from typing import Any

import grpc
import pytest
from grpc import aio
from sluice.inference import inference_pb2, inference_pb2_grpc
from sluice.v1.sampling_pb2 import SamplingParams

from service.contract.inference.parameters import Given, set_fields
from service.observability.health import ServingPhase
from tests.engine.fakes import until
from tests.service.fakes import ENDLESS, MODEL, Running, ScriptedRunner, rejection_of, running

Request = inference_pb2.ModelInferRequest
Parameter = inference_pb2.InferParameter


def stub_of(run: Running) -> Any:
    return inference_pb2_grpc.GRPCInferenceServiceStub(run.channel)


def request_of(*, name: str = "text_input", text: str = "hi", **fields: Any) -> Request:
    """Return a request with one text in `contents`; the values of `parameters` have any type."""
    tensor = Request.InferInputTensor(name=name, datatype="BYTES", shape=[1])
    tensor.contents.bytes_contents.append(text.encode())
    parameters = {key: parameter(value) for key, value in fields.pop("parameters", {}).items()}
    return Request(**{"model_name": MODEL, "inputs": [tensor], "parameters": parameters, **fields})


def parameter(value: Any) -> inference_pb2.InferParameter:
    """Return a parameter of the value's type."""
    kind = {bool: "bool_param", int: "int64_param", str: "string_param", float: "double_param"}[type(value)]
    return Parameter(**{kind: value})


def texts_of(response: inference_pb2.ModelInferResponse) -> dict[str, Any]:
    """Return the elements of all output tensors by name; of one element, if there is one."""
    found: dict[str, Any] = {}
    for output in response.outputs:
        ((_, values),) = output.contents.ListFields() if output.HasField("contents") else ((None, [b""]),)
        found[output.name] = values[0].decode() if output.datatype == "BYTES" else values[0]
    return found


async def streamed(run: Running, *requests: Request, metadata: Any = ()) -> list[Any]:
    """Return the responses of a stream with these requests."""
    return [each async for each in stub_of(run).ModelStreamInfer(iter(requests), metadata=metadata)]


async def test_text_is_generated_with_contents_and_with_raw_contents() -> None:
    """The response has the form of its request, its id, and the model's name."""
    raw = b"hi"
    async with running() as run:
        typed = await stub_of(run).ModelInfer(request_of(id="7"))
        request = request_of(raw_input_contents=[struct.pack("<I", len(raw)) + raw])
        request.inputs[0].ClearField("contents")
        packed = await stub_of(run).ModelInfer(request)
    assert (typed.id, typed.model_name, texts_of(typed)) == ("7", MODEL, {"text_output": "hello"})
    assert not typed.raw_output_contents
    assert packed.id
    assert list(packed.raw_output_contents) == [struct.pack("<I", 5) + b"hello"]
    assert not packed.outputs[0].HasField("contents")


@pytest.mark.parametrize(
    "parameters",
    [
        {"max_tokens": 3},
        {"max_new_tokens": 3},
        {"sampling_parameters": json.dumps({"max_tokens": "3", "temperature": "0"})},
        {"stop": "lo"},
        {"stop": json.dumps(["x", "lo"])},
    ],
)
async def test_parameters_limit_the_text(parameters: dict[str, Any]) -> None:
    """Limits and stop strings apply in each of their forms."""
    async with running(ScriptedRunner("hello ", end=False)) as run:
        response = await stub_of(run).ModelInfer(request_of(parameters={**parameters, "details": True}))
    found = texts_of(response)
    assert found["text_output"] == "hel"
    assert found["finish_reason"] == ("stop" if "stop" in parameters else "length")
    assert found["num_input_tokens"] == len("hi")
    assert found["num_output_tokens"] == len("hello" if "stop" in parameters else "hel")


@pytest.mark.parametrize("seed", [2**53 + 1, 2**64 - 1, str(2**64 - 1), 5.0])
def test_integers_are_exact(seed: float | str) -> None:
    """Also those that no float64 can have."""
    message = SamplingParams()
    set_fields({"seed": Given(seed, "seed")}, [(message, None)])
    assert message.seed == int(seed)


async def test_chat_is_answered_by_messages() -> None:
    """The tensor `messages` has the messages as JSON."""
    messages = [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": [{"type": "text", "text": "x"}]},
    ]
    async with running() as run:
        response = await stub_of(run).ModelInfer(request_of(name="messages", text=json.dumps(messages)))
    assert texts_of(response) == {"text_output": "hello"}


async def test_only_requested_outputs_are_returned() -> None:
    """Without a list of outputs, it is the text; `exclude_input_in_output: false` adds the prompt to it."""
    async with running() as run:
        outputs = [Request.InferRequestedOutputTensor(name="finish_reason")]
        assert texts_of(await stub_of(run).ModelInfer(request_of(outputs=outputs))) == {"finish_reason": "stop"}
        request = request_of(parameters={"exclude_input_in_output": False})
        assert texts_of(await stub_of(run).ModelInfer(request)) == {"text_output": "hihello"}


async def test_all_outputs_of_the_metadata_can_be_requested() -> None:
    """Clients such as perf_analyzer request each output of a model: a text has no tool calls."""
    async with running() as run:
        metadata = await stub_of(run).ModelMetadata(inference_pb2.ModelMetadataRequest(name=MODEL))
        outputs = [Request.InferRequestedOutputTensor(name=each.name) for each in metadata.outputs]
        found = texts_of(await stub_of(run).ModelInfer(request_of(outputs=outputs)))
    assert "tool_calls" in found
    assert found.keys() == {each.name for each in metadata.outputs}
    assert (found["text_output"], found["tool_calls"]) == ("hello", "[]")


async def test_stream_sends_pieces_and_marks_the_last_response() -> None:
    """Pieces add up to the text; the last response has the finish reason and the numbers of tokens."""
    request = request_of(id="a", parameters={"stream": True, "return_finish_reason": True})
    async with running() as run:
        responses = [each.infer_response for each in await streamed(run, request)]
    assert "".join(texts_of(each)["text_output"] for each in responses) == "hello"
    finals = [each.parameters["triton_final_response"].bool_param for each in responses]
    assert finals == [False] * (len(finals) - 1) + [True]
    assert len(finals) > 1
    assert texts_of(responses[-1])["finish_reason"] == "stop"
    assert {each.id for each in responses} == {"a"}


async def test_requests_of_one_stream_are_answered_by_their_ids(caplog: pytest.LogCaptureFixture) -> None:
    """One stream may have several requests, with and without `stream`, and wrong ones; each has a line in the log."""
    caplog.set_level(logging.INFO, "sluice.access")
    requests = [
        request_of(id="whole"),
        request_of(id="wrong", name="nonsense"),
        request_of(
            id="pieces", name="messages", text='[{"role": "user", "content": "x"}]', parameters={"stream": True}
        ),
    ]
    async with running() as run:
        responses = await streamed(run, *requests)
        await run.until_idle()
    by_id: dict[str, list[Any]] = {}
    for each in responses:
        by_id.setdefault(each.infer_response.id, []).append(each)
    (whole,) = by_id["whole"]
    assert texts_of(whole.infer_response) == {"text_output": "hello"}
    (wrong,) = by_id["wrong"]
    assert wrong.error_message.startswith("inputs: must have text_input")
    assert wrong.infer_response.parameters["status"].string_param == "INVALID_ARGUMENT"
    assert wrong.infer_response.parameters["reason"].string_param == "INVALID_FIELD"
    assert "".join(texts_of(each.infer_response)["text_output"] for each in by_id["pieces"]) == "hello"
    lines = [getattr(record, "fields", {}) for record in caplog.records if record.name == "sluice.access"]
    assert sorted(line["status"] for line in lines) == ["INVALID_ARGUMENT", "OK", "OK", "OK"]  # the last is the call's
    assert [line["completion_tokens"] for line in lines if "completion_tokens" in line] == [len("hello") + 1] * 2


async def test_stream_with_triton_grpc_error_ends_with_the_status() -> None:
    """The metadata turns the first error into the status of the call."""
    async with running() as run:
        call = stub_of(run).ModelStreamInfer(
            iter([request_of(model_name="none")]), metadata=[("triton_grpc_error", "true")]
        )
        with pytest.raises(aio.AioRpcError) as failed:
            [each async for each in call]
    assert failed.value.code() is grpc.StatusCode.NOT_FOUND


async def test_cancelling_a_stream_stops_its_generations() -> None:
    """All of the stream's requests end, and their blocks are free."""
    async with running(ScriptedRunner("endless ", end=False), engine=ENDLESS) as run:
        requests = [request_of(id=str(i), parameters={"stream": True, "max_tokens": 900_000}) for i in range(2)]
        call = stub_of(run).ModelStreamInfer()
        for each in requests:
            await call.write(each)
        await until(lambda: run.engine.stats().num_running == len(requests))
        call.cancel()
        await run.until_idle()


async def test_open_stream_ends_when_the_service_shuts_down() -> None:
    """A stream without requests doesn't hold up a shutdown; it ends with UNAVAILABLE."""
    async with running() as run:
        call = stub_of(run).ModelStreamInfer()
        await call.write(request_of())
        first = await call.read()
        assert texts_of(first.infer_response) == {"text_output": "hello"}
        draining = asyncio.create_task(run.server.drain())
        with pytest.raises(aio.AioRpcError) as failed:
            await call.read()
        await draining
    assert failed.value.code() is grpc.StatusCode.UNAVAILABLE


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "temperature above its limit": ({"parameters": {"temperature": 3.0}}, 'parameters["temperature"]'),
    "temperature in sampling_parameters": (
        {"parameters": {"sampling_parameters": '{"temperature": "hot"}'}},
        'parameters["sampling_parameters"].temperature',
    ),
    "unknown parameter": ({"parameters": {"temprature": 1.0}}, 'parameters["temprature"]'),
    "stream in a unary call": ({"parameters": {"stream": True}}, 'parameters["stream"]'),
    "state of a sequence": ({"parameters": {"sequence_id": 5}}, 'parameters["sequence_id"]'),
    "no model": ({"model_name": ""}, "model_name"),
    "name that is too long": ({"model_name": "m" * 257}, "model_name"),
    "other tensor": ({"name": "x", "text": "1"}, "inputs"),
    "output that the model lacks": (
        {"outputs": [Request.InferRequestedOutputTensor(name="scores")]},
        'outputs["scores"]',
    ),
    "empty prompt": ({"text": ""}, 'inputs["text_input"]'),
    "messages that are no JSON": ({"name": "messages", "text": "["}, 'inputs["messages"]'),
    "role that isn't known": ({"name": "messages", "text": '[{"role": "x"}]'}, 'inputs["messages"][0].role'),
    "text that isn't Unicode": (
        {"name": "messages", "text": '[{"role": "user", "content": "\\ud800"}]'},
        'inputs["messages"][0]',
    ),
    "more elements than the limit": ({"raw_input_contents": [b""], "shape": [4096, 4096]}, 'inputs["text_input"]'),
    "more raw elements than the shape": ({"raw_input_contents": [b"\0" * 1_000_000]}, 'inputs["text_input"]'),
    "too many messages": (
        {"name": "messages", "text": json.dumps([{"role": "user", "content": "x"}] * 4097)},
        'inputs["messages"]',
    ),
    "too much JSON": ({"parameters": {"sampling_parameters": " " * 70_000}}, 'parameters["sampling_parameters"]'),
    "too many raw contents": ({"raw_input_contents": [b"", b""]}, "raw_input_contents"),
    "raw contents that end too early": ({"raw_input_contents": [b"\x05\0\0\0hi"]}, 'inputs["text_input"]'),
}


@pytest.mark.parametrize("case", WRONG)
async def test_wrong_request_is_rejected_by_the_name_of_its_field(case: str) -> None:
    """The status is INVALID_ARGUMENT, and its details name the tensor or the parameter."""
    fields, expected = WRONG[case]
    shape = fields.get("shape")
    request = request_of(**{name: value for name, value in fields.items() if name != "shape"})
    if shape is not None:
        request.inputs[0].shape[:] = shape
    if request.raw_input_contents:
        request.inputs[0].ClearField("contents")
    async with running() as run:
        rejection = await rejection_of(stub_of(run).ModelInfer(request))
    assert rejection.code is grpc.StatusCode.INVALID_ARGUMENT
    assert [field for field, _ in rejection.fields] == [expected]


async def test_server_reports_its_state_while_it_starts_and_stops() -> None:
    """Liveness and readiness are answered in every phase; other calls are rejected while the service starts."""
    async with running(is_loaded=False) as run:
        assert (await stub_of(run).ServerLive(inference_pb2.ServerLiveRequest())).live
        assert not (await stub_of(run).ServerReady(inference_pb2.ServerReadyRequest())).ready
        rejection = await rejection_of(stub_of(run).ServerMetadata(inference_pb2.ServerMetadataRequest()))
        assert rejection.code is grpc.StatusCode.UNAVAILABLE
        await run.server.health.enter(ServingPhase.SERVING)
        assert (await stub_of(run).ServerReady(inference_pb2.ServerReadyRequest())).ready


async def test_models_are_described_by_their_tensors() -> None:
    """Metadata, configuration, index and readiness of a model that chats and completes."""
    name = inference_pb2.ModelMetadataRequest(name=MODEL)
    async with running() as run:
        metadata = await stub_of(run).ModelMetadata(name)
        config = (await stub_of(run).ModelConfig(inference_pb2.ModelConfigRequest(name=MODEL))).config
        index = await stub_of(run).RepositoryIndex(inference_pb2.RepositoryIndexRequest())
        ready = [
            (await stub_of(run).ModelReady(inference_pb2.ModelReadyRequest(name=each))).ready for each in (MODEL, "no")
        ]
        server = await stub_of(run).ServerMetadata(inference_pb2.ServerMetadataRequest())
    assert {"text_input", "messages", "stream"} <= {each.name for each in metadata.inputs}
    assert metadata.outputs[0].name == "text_output"
    assert config.model_transaction_policy.decoupled
    assert [each.name for each in config.input] == [each.name for each in metadata.inputs]
    assert [(each.name, each.state) for each in index.models] == [(MODEL, "READY")]
    assert ready == [True, False]
    assert server.name == "sluice"
