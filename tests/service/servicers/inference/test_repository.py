"""GRPCInferenceService over encoders and several models: embeddings, scores, and loading and unloading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio
from sluice.inference import inference_pb2, inference_pb2_grpc

from tests.service.encoder_fakes import CROSS, ENCODER, running_encoder
from tests.service.endpoint_fakes import serving
from tests.service.fakes import rejection_of

Request = inference_pb2.ModelInferRequest
Parameter = inference_pb2.ModelRepositoryParameter


def texts(**tensors: list[str]) -> list[Any]:
    """Return tensors of texts by name."""
    found = []
    for name, values in tensors.items():
        tensor = Request.InferInputTensor(name=name, datatype="BYTES", shape=[len(values)])
        tensor.contents.bytes_contents.extend(value.encode() for value in values)
        found.append(tensor)
    return found


def outputs(*names: str) -> list[Any]:
    """Return the requested outputs of these names."""
    return [Request.InferRequestedOutputTensor(name=name) for name in names]


async def test_encoders_return_tensors_of_numbers() -> None:
    """Embeddings have a row for each text, scores a number for each document; metadata describes both."""
    async with running_encoder() as run:
        stub = run.inference
        answer = await stub.ModelInfer(Request(model_name=ENCODER, inputs=texts(text_input=["aa", "b", "cc"])))
        documents = texts(query=["aaa"], documents=["bb", "dddd"])
        options = {"raw_scores": inference_pb2.InferParameter(bool_param=True)}
        ranked = await stub.ModelInfer(Request(model_name=CROSS, inputs=documents, parameters=options))
        streamed = inference_pb2.InferParameter(bool_param=True)
        request = Request(model_name=ENCODER, inputs=texts(text_input=["a"]), parameters={"stream": streamed})
        rejection = await rejection_of(stub.ModelInfer(request))
        both, other = outputs("embeddings", "scores"), outputs("scores")
        request = Request(model_name=ENCODER, inputs=texts(text_input=["aa", "b", "cc"]), outputs=both)
        same = await stub.ModelInfer(request)
        wrong = await rejection_of(stub.ModelInfer(Request(model_name=ENCODER, inputs=request.inputs, outputs=other)))
        metadata = await stub.ModelMetadata(inference_pb2.ModelMetadataRequest(name=CROSS))
    (vectors,) = answer.outputs
    assert list(same.outputs) == [vectors]
    assert [field for field, _ in wrong.fields] == ["outputs"]
    assert (vectors.name, vectors.datatype, vectors.shape[0]) == ("embeddings", "FP32", 3)
    rows, size = list(vectors.contents.fp32_contents), vectors.shape[1]
    assert len(rows) == 3 * size
    assert rows[:size] != rows[size : 2 * size]
    (scores,) = ranked.outputs
    assert (scores.name, list(scores.shape), list(scores.contents.fp32_contents)) == ("scores", [2], [5, 7])
    assert [field for field, _ in rejection.fields] == ['parameters["stream"]']
    assert [each.name for each in metadata.inputs] == ["query", "documents"]


async def test_models_are_loaded_and_unloaded_by_name(tmp_path: Path) -> None:
    """A folder below `models_root` is loaded by its name, or by `path`; loading a served model changes nothing."""
    (tmp_path / "new").mkdir()
    async with serving("a", models_root=tmp_path) as run, aio.insecure_channel(f"127.0.0.1:{run.port}") as channel:
        stub: Any = inference_pb2_grpc.GRPCInferenceServiceStub(channel)

        async def load(name: str, **parameters: str) -> None:
            given = {key: Parameter(string_param=value) for key, value in parameters.items()}
            await stub.RepositoryModelLoad(inference_pb2.RepositoryModelLoadRequest(model_name=name, parameters=given))

        async def names() -> list[str]:
            index = await stub.RepositoryIndex(inference_pb2.RepositoryIndexRequest(ready=True))
            assert {each.state for each in index.models} == {"READY"}
            return [each.name for each in index.models]

        await load("new")
        await load("new")
        await load("other", path="new", version="7")
        assert await names() == ["a", "new", "other", "encoder"]
        for name in ("new", "other"):
            await stub.RepositoryModelUnload(inference_pb2.RepositoryModelUnloadRequest(model_name=name))
        assert await names() == ["a", "encoder"]
        rejection = await rejection_of(load("third", path="new", quantization="int3"))
        assert [field for field, _ in rejection.fields] == ['parameters["quantization"]']
        for unsupported in ("config", "pth", "background"):
            with pytest.raises(aio.AioRpcError) as failed:
                await load("third", **{unsupported: "true"})
            assert failed.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert (failed.value.details() or "").startswith(f'parameters["{unsupported}"]')
            assert unsupported == "config" or "unknown parameter" in (failed.value.details() or "")


async def test_the_index_separates_models_that_are_being_loaded_from_those_that_failed() -> None:
    """A reason may have paths, so that only administrators get it; clients without keys are administrators."""
    async with serving("a") as run, aio.insecure_channel(f"127.0.0.1:{run.port}") as channel:
        run.server.registry.leave_out("new", "it is being loaded", is_loading=True)
        run.server.registry.leave_out("broken", "no config.json")
        index = await inference_pb2_grpc.GRPCInferenceServiceStub(channel).RepositoryIndex(
            inference_pb2.RepositoryIndexRequest()
        )
    states = {each.name: (each.state, each.reason) for each in index.models}
    assert states["new"] == ("LOADING", "it is being loaded")
    assert states["broken"] == ("UNAVAILABLE", "no config.json")
    assert states["a"] == ("READY", "")
