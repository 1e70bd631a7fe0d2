"""KServe's `infer` and its descriptions of models over HTTP: JSON and binary tensors, and the calls to the service."""

from __future__ import annotations

import json
import struct
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from sluice.inference import inference_pb2, inference_pb2_grpc, model_config_pb2, model_statistics_pb2

from tests.gateway import fakes
from tests.gateway.conftest import Gateway

PATH = "/v2/models/org/b/infer"
FRAMED = "inference-header-content-length"
TEXT = {"name": "text_input", "datatype": "BYTES", "shape": [1]}


class FakeInferenceService(fakes.FakeService, inference_pb2_grpc.GRPCInferenceServiceServicer):
    """Answers every inference with a text and two numbers, packed if the request wants that."""

    # The RPCs that the gateway doesn't call.
    ServerLive = ServerReady = ModelReady = ServerMetadata = None  # type: ignore[assignment]
    ModelStreamInfer = RepositoryModelLoad = RepositoryModelUnload = None  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.inferences: list[inference_pb2.ModelInferRequest] = []
        self.status: fakes.Status | None = None

    async def ModelInfer(  # noqa: N802  the protocol's name
        self, request: inference_pb2.ModelInferRequest, context: Any
    ) -> inference_pb2.ModelInferResponse:
        self._note(context)
        self.inferences.append(request)
        if self.status is not None:
            await fakes.abort(context, self.status)
        response = inference_pb2.ModelInferResponse(model_name="org/b", model_version="2", id=request.id or "made")
        texts = response.outputs.add(name="text_output", datatype="BYTES", shape=[1])
        numbers = response.outputs.add(name="scores", datatype="FP32", shape=[2])
        if request.parameters["binary_data_output"].bool_param:
            response.raw_output_contents.extend([struct.pack("<I", 2) + b"ok", struct.pack("<2f", 0.5, -1)])
        else:
            texts.contents.bytes_contents.append(b"ok")
            numbers.contents.fp32_contents.extend([0.5, -1])
        return response

    async def ModelMetadata(  # noqa: N802  the protocol's name
        self, request: inference_pb2.ModelMetadataRequest, context: Any
    ) -> inference_pb2.ModelMetadataResponse:
        self._note(context)
        if (request.name, request.version) not in {("org/b", ""), ("org/b", "2")}:
            status = fakes.Status(grpc.StatusCode.NOT_FOUND, "no such model", fakes.error_info("MODEL_NOT_FOUND"))
            await fakes.abort(context, status)
        message = inference_pb2.ModelMetadataResponse(name="org/b", versions=["2"], platform="X")
        message.inputs.add(**TEXT)
        message.outputs.add(name="embeddings", datatype="FP32", shape=[-1, 384])
        return message

    async def ModelConfig(  # noqa: N802  the protocol's name
        self, request: inference_pb2.ModelConfigRequest, context: Any
    ) -> inference_pb2.ModelConfigResponse:
        self._note(context)
        config = model_config_pb2.ModelConfig(name=request.name, backend="sluice")
        config.input.add(name="text_input", data_type=model_config_pb2.TYPE_STRING, dims=[-1], optional=True)
        config.output.add(name="embeddings", data_type=model_config_pb2.TYPE_FP32, dims=[-1, 384])
        return inference_pb2.ModelConfigResponse(config=config)

    async def ModelStatistics(  # noqa: N802  the protocol's name
        self, request: model_statistics_pb2.ModelStatisticsRequest, context: Any
    ) -> model_statistics_pb2.ModelStatisticsResponse:
        """Return the statistics of `org/b`."""
        self._note(context)
        response = model_statistics_pb2.ModelStatisticsResponse()
        found = {"success": {"count": 2, "ns": 2**60}}
        response.model_stats.add(name=request.name, version="2", inference_count=2, inference_stats=found)
        return response

    async def RepositoryIndex(  # noqa: N802  the protocol's name
        self, request: inference_pb2.RepositoryIndexRequest, context: Any
    ) -> inference_pb2.RepositoryIndexResponse:
        self._note(context)
        index = inference_pb2.RepositoryIndexResponse()
        index.models.add(name="org/b", version="2", state="READY")
        if not request.ready:
            index.models.add(name="asleep", version="1", state="UNAVAILABLE")
        return index


@pytest.fixture
async def service() -> AsyncIterator[FakeInferenceService]:
    """Run the fake service of this module."""
    service = FakeInferenceService()
    server, service.port = await fakes.start(service)
    yield service
    await server.stop(None)


async def test_tensors_in_json(gateway: Gateway, service: FakeInferenceService) -> None:
    """Nested data is flat in the protocol's message; lists in parameters are JSON texts; the answer is JSON."""
    body = {
        "id": "7",
        "inputs": [
            {**TEXT, "shape": [1, 2], "data": [["a", "ü"]]},
            {"name": "n", "datatype": "FP32", "shape": [2], "data": [1, 0.5]},
        ],
        "outputs": [{"name": "text_output"}],
        "parameters": {"max_tokens": 4, "stop": ["x"], "stream": False, "temperature": 0.5, "timeout": None},
    }
    answer = await gateway.http.post("/v2/models/org/b/versions/2/infer", json=body)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == {
        "id": "7",
        "model_name": "org/b",
        "model_version": "2",
        "outputs": [
            {**TEXT, "name": "text_output", "data": ["ok"]},
            {"name": "scores", "datatype": "FP32", "shape": [2], "data": [0.5, -1]},
        ],
    }
    (request,) = service.inferences
    assert (request.model_name, request.model_version, request.id) == ("org/b", "2", "7")
    texts, numbers = request.inputs
    assert list(texts.contents.bytes_contents) == [b"a", "ü".encode()]
    assert list(numbers.contents.fp32_contents) == [1, 0.5]
    assert request.parameters["stop"].string_param == '["x"]'
    assert request.parameters["temperature"].double_param == 0.5
    assert request.parameters["max_tokens"].int64_param == 4
    assert "timeout" not in request.parameters
    assert [each.name for each in request.outputs] == ["text_output"]
    assert service.metadata[-1]["x-sluice-model"] == "org%2Fb"


@pytest.mark.parametrize(
    "wish",
    [
        {"parameters": {"binary_data_output": True}},
        {"outputs": [{"name": "text_output", "parameters": {"binary_data": True}}]},
    ],
)
async def test_binary_tensors(gateway: Gateway, service: FakeInferenceService, wish: dict[str, Any]) -> None:
    """Elements follow the JSON, whose length is a header, in request and answer; no content type is needed."""
    raw = struct.pack("<I", 2) + b"hi"
    tensors = [
        {**TEXT, "parameters": {"binary_data_size": len(raw)}},
        {"name": "stream", "datatype": "BOOL", "shape": [1], "data": [False]},
    ]
    head = json.dumps({"inputs": tensors, **wish}).encode()
    answer = await gateway.http.post(PATH, content=head + raw, headers={FRAMED: str(len(head))})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/octet-stream")
    length = int(answer.headers[FRAMED])
    outputs = json.loads(answer.content[:length])["outputs"]
    assert [each["parameters"]["binary_data_size"] for each in outputs] == [6, 8]
    assert answer.content[length:] == struct.pack("<I", 2) + b"ok" + struct.pack("<2f", 0.5, -1)
    (request,) = service.inferences
    assert list(request.raw_input_contents) == [raw]
    assert not request.inputs[0].HasField("contents")
    assert list(request.inputs[1].contents.bool_contents) == [False]


@pytest.mark.parametrize(("content_type", "status"), [("", 200), ("application/json", 200), ("text/plain", 415)])
async def test_inferences_need_no_content_type(gateway: Gateway, content_type: str, status: int) -> None:
    """Triton's client sends none; types that pages of other sites can send are rejected."""
    headers = {"content-type": content_type} if content_type else {}
    answer = await gateway.http.post(PATH, content=b'{"inputs": []}', headers=headers)
    assert answer.status_code == status


WRONG: dict[str, tuple[dict[str, Any], dict[str, str], str]] = {
    "no inputs": ({}, {}, "inputs: required"),
    "no data": ({"inputs": [TEXT]}, {}, 'inputs["text_input"]: must have data'),
    "unknown type": ({"inputs": [{**TEXT, "datatype": "X", "data": []}]}, {}, 'inputs["text_input"]: the datatype'),
    "other type": ({"inputs": [{**TEXT, "data": [1]}]}, {}, 'inputs["text_input"]: data must have'),
    "text that is no number": (
        {"inputs": [{"name": "n", "datatype": "FP32", "shape": [1], "data": ["a"]}]},
        {},
        'inputs["n"]',
    ),
    "nested too deeply": (
        {"inputs": [{**TEXT, "data": [[[[[[[[["a"]]]]]]]]]}]},
        {},
        'inputs["text_input"]: data must be nested',
    ),
    "more bytes than there are": (
        {"inputs": [{**TEXT, "parameters": {"binary_data_size": 1}}]},
        {},
        'inputs["text_input"]: binary_data_size',
    ),
    "a size that is no number": (
        {"inputs": [{**TEXT, "parameters": {"binary_data_size": True}}]},
        {},
        'inputs["text_input"]: binary_data_size must be an integer from 0 to 0',
    ),
    "a form that is a text": (
        {"inputs": [], "parameters": {"binary_data_output": "false"}},
        {},
        'parameters["binary_data_output"]: must be true or false',
    ),
    "a form of an output that is a text": (
        {"inputs": [], "outputs": [{"name": "a", "parameters": {"binary_data": "false"}}]},
        {},
        'outputs["a"].parameters["binary_data"]: must be true or false',
    ),
    "both forms": (
        {"inputs": [{**TEXT, "data": [], "parameters": {"binary_data_size": 0}}]},
        {},
        'inputs["text_input"]: must have either',
    ),
    "length beyond the body": ({}, {FRAMED: "99999"}, FRAMED),
    "length that is no number": ({}, {FRAMED: "-1"}, FRAMED),
    "another model than the path's": ({"inputs": [], "model_name": "a"}, {}, "model_name: must be 'org/b'"),
    "number of more than 64 bits": ({"inputs": [], "parameters": {"seed": 2**64}}, {}, 'parameters["seed"]'),
}


@pytest.mark.parametrize("case", WRONG)
async def test_wrong_body_names_its_field(gateway: Gateway, service: FakeInferenceService, case: str) -> None:
    """The status is 400 with the dialect's error body, and the service is not called."""
    body, headers, text = WRONG[case]
    answer = await gateway.http.post(PATH, json=body, headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error_type"] == "validation"
    assert answer.json()["error"].startswith(text)
    assert not service.inferences


async def test_bytes_that_no_tensor_names_are_rejected(gateway: Gateway) -> None:
    """All bytes after the JSON belong to tensors."""
    head = json.dumps({"inputs": []}).encode()
    answer = await gateway.http.post(PATH, content=head + b"x", headers={FRAMED: str(len(head))})
    assert answer.json()["error"] == f"{FRAMED}: 1 bytes follow the JSON, but the tensors have 0"


async def test_error_of_the_service_has_its_names(gateway: Gateway, service: FakeInferenceService) -> None:
    """The service names tensors and parameters as the client does."""
    field = 'parameters["top_p"]'
    service.status = fakes.Status(
        grpc.StatusCode.INVALID_ARGUMENT,
        "",
        fakes.error_info("INVALID_FIELD"),
        fakes.bad_request(**{field: "too large"}),
    )
    answer = await gateway.http.post(PATH, json={"inputs": []})
    assert answer.status_code == 400
    assert answer.json() == {"error": f"{field}: too large", "error_type": "validation"}


@pytest.mark.parametrize("path", ["/v2/models/org/b", "/v2/models/org/b/versions/2"])
async def test_model_is_described_as_by_the_service(gateway: Gateway, path: str) -> None:
    """Tensors, configuration and index are the service's, with integers as JSON numbers."""
    assert (await gateway.http.get(path)).json() == {
        "name": "org/b",
        "versions": ["2"],
        "platform": "X",
        "inputs": [TEXT],
        "outputs": [{"name": "embeddings", "datatype": "FP32", "shape": [-1, 384]}],
    }
    config = (await gateway.http.get(f"{path}/config")).json()
    assert config["input"] == [{"name": "text_input", "data_type": "TYPE_STRING", "dims": [-1], "optional": True}]
    assert config["output"][0]["dims"] == [-1, 384]
    assert config["max_batch_size"] == 0
    assert config["model_transaction_policy"] == {"decoupled": False}
    (statistics,) = (await gateway.http.get(f"{path}/stats")).json()["model_stats"]
    assert (statistics["inference_count"], statistics["last_inference"]) == (2, 0)
    assert statistics["inference_stats"]["success"] == {"count": 2, "ns": 2**60}
    no_time = {"count": 0, "ns": 0}
    others = {"fail", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss"}
    assert statistics["inference_stats"].keys() == {"success", *others}
    assert all(statistics["inference_stats"][name] == no_time for name in others)


@pytest.mark.parametrize(
    ("body", "names"),
    [(b"", ["org/b", "asleep"]), (b"{}", ["org/b", "asleep"]), (b'{"ready": null}', ["org/b", "asleep"]),
     (b'{"ready": false}', ["org/b", "asleep"]), (b'{"ready": true}', ["org/b"])],
)  # fmt: skip
async def test_the_index_has_all_models_or_only_those_that_are_ready(
    gateway: Gateway, body: bytes, names: list[str]
) -> None:
    index = await gateway.http.post("/v2/repository/index", content=body)
    assert [each["name"] for each in index.json()] == names
    assert index.json()[0] == {"name": "org/b", "version": "2", "state": "READY"}


async def test_a_wrong_body_of_the_index_is_rejected(gateway: Gateway) -> None:
    answer = await gateway.http.post("/v2/repository/index", json={"ready": "x"})
    assert (answer.status_code, answer.json()["error"]) == (400, "ready: must be a boolean, not a string")


@pytest.mark.parametrize("path", ["/v2/models/other", "/v2/models/org/b/versions/3"])
async def test_unknown_model_or_version_gets_404(gateway: Gateway, path: str) -> None:
    """The error has the dialect's format."""
    answer = await gateway.http.get(path)
    assert (answer.status_code, answer.json()["error_type"]) == (404, "not_found")
