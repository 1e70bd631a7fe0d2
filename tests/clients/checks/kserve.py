"""KServe's SDK: its clients of the open inference protocol for REST and gRPC."""

import asyncio
from typing import Any

import httpx
import numpy as np
from grpc.aio import AioRpcError
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig

ENCODER = "all-minilm-l6-v2"
MODEL = "sluice-demo"
TEXTS = ["a cat", "a kitten"]


def request_of(model: str, texts: list[str], *, is_binary: bool, **fields: Any) -> InferRequest:
    """Return a request with one tensor of texts."""
    tensor = InferInput("text_input", [len(texts)], "BYTES", data=None if is_binary else texts)
    if is_binary:
        tensor.set_data_from_numpy(np.array([text.encode() for text in texts], dtype=np.object_), binary_data=True)
    return InferRequest(model_name=model, infer_inputs=[tensor], **fields)


def text_of(response: Any) -> str:
    """Return the text in a response."""
    (found,) = response.outputs[0].as_numpy()
    return found.decode() if isinstance(found, bytes) else str(found)


def check_rest_client(url: str, _: str) -> None:
    """The client for REST reads states, and gets texts and embeddings by JSON and by binary tensors."""

    async def ask() -> None:
        async with InferenceRESTClient(RESTConfig(protocol="v2", timeout=240)) as client:
            assert await client.is_server_live(url)
            assert await client.is_server_ready(url)
            assert await client.is_model_ready(url, MODEL)
            assert not await client.is_model_ready(url, "nobody")
            options: Any = {"parameters": {"max_tokens": 8}, "request_id": "7"}
            one, other = [
                await client.infer(url, request_of(MODEL, ["Hello"], is_binary=is_binary, **options), model_name=MODEL)
                for is_binary in (False, True)
            ]
            assert text_of(one) == text_of(other) != ""
            assert one.id == "7"
            vectors = await client.infer(url, request_of(ENCODER, TEXTS, is_binary=True), model_name=ENCODER)
            assert vectors.outputs[0].as_numpy().shape[0] == len(TEXTS)
            try:
                wrong = request_of(MODEL, ["Hello"], is_binary=False, parameters={"temperature": 3.0})
                await client.infer(url, wrong, model_name=MODEL)
            except httpx.HTTPStatusError as error:
                assert error.response.status_code == 400
            else:
                raise AssertionError("no error")

    asyncio.run(ask())


def check_grpc_client(url: str, _: str) -> None:
    """The client for gRPC reads states, and gets texts and embeddings by contents and by raw contents."""

    async def ask() -> None:
        async with InferenceGRPCClient(url.removeprefix("http://"), timeout=240) as client:
            assert await client.is_server_live()
            assert await client.is_server_ready()
            assert await client.is_model_ready(MODEL)
            options: Any = {"parameters": {"max_tokens": 8}, "request_id": "7"}
            one, other = [
                await client.infer(request_of(MODEL, ["Hello"], is_binary=is_binary, **options))
                for is_binary in (False, True)
            ]
            assert text_of(one) == text_of(other) != ""
            vectors = await client.infer(request_of(ENCODER, TEXTS, is_binary=False))
            assert vectors.outputs[0].as_numpy().shape[0] == len(TEXTS)
            try:
                await client.infer(request_of("nobody", ["Hello"], is_binary=False))
            except AioRpcError as error:
                assert error.code().name == "NOT_FOUND"
            else:
                raise AssertionError("no error")

    asyncio.run(ask())
