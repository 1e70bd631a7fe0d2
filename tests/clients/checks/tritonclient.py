"""NVIDIA's `tritonclient` over gRPC and HTTP: server and models, inference, streams, cancellation and errors."""

import asyncio
import json
import queue
import threading
from typing import Any

import numpy as np
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

ENCODER = "all-minilm-l6-v2"
MODEL = "sluice-demo"
PROMPT = "Hello, my name is"
TIMEOUT_S = 240
DOCUMENTS = ["interest rates rose again", "a cat sleeps on the mat", "a motorway at night"]


def client_of(url: str) -> triton.InferenceServerClient:
    return triton.InferenceServerClient(url.removeprefix("http://"))


def texts(name: str, *values: str) -> triton.InferInput:
    """Return a tensor of texts."""
    tensor = triton.InferInput(name, [len(values)], "BYTES")
    tensor.set_data_from_numpy(np.array([value.encode() for value in values], dtype=np.object_))
    return tensor


def flag(name: str, value: bool) -> triton.InferInput:  # noqa: FBT001  a tensor's value
    tensor = triton.InferInput(name, [1], "BOOL")
    tensor.set_data_from_numpy(np.array([value]))
    return tensor


def text_of(result: Any, name: str = "text_output") -> str:
    """Return the text in a result."""
    found: bytes = result.as_numpy(name)[0]
    return found.decode()


def streamed(client: Any, inputs: list[Any], **options: Any) -> list[Any]:
    """Return the results of a streamed request; raise its error."""
    received: queue.Queue[Any] = queue.Queue()
    client.start_stream(callback=lambda result, error: received.put(error or result))
    client.async_stream_infer(MODEL, inputs, enable_empty_final_response=True, **options)
    found: list[Any] = []
    while True:
        item = received.get(timeout=TIMEOUT_S)
        if isinstance(item, InferenceServerException):
            client.stop_stream()
            raise item
        found.append(item)
        if item.get_response().parameters["triton_final_response"].bool_param:
            client.stop_stream()
            return found


def check_server_and_models_are_described(url: str, _: str) -> None:
    """Liveness, readiness, metadata, configuration and the index have the server's models."""
    with client_of(url) as client:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready(MODEL)
        assert not client.is_model_ready("nobody")
        assert client.get_server_metadata().name == "sluice"
        metadata = client.get_model_metadata(MODEL, as_json=True)
        assert {"text_input", "messages"} <= {each["name"] for each in metadata["inputs"]}
        assert client.get_model_config(MODEL).config.model_transaction_policy.decoupled
        (statistics,) = client.get_inference_statistics(MODEL).model_stats
        assert statistics.name == MODEL
        index = client.get_model_repository_index(as_json=True)
        assert {MODEL, ENCODER} <= {each["name"] for each in index["models"]}


def check_text_generation(url: str, _: str) -> None:
    """A greedy text is the same with the parameters of each of the protocol's forms."""
    with client_of(url) as client:
        one = client.infer(MODEL, [texts("text_input", PROMPT)], request_id="1", parameters={"max_tokens": 8})
        sampling = json.dumps({"temperature": "0", "max_tokens": "8"})
        inputs = [
            texts("text_input", PROMPT),
            flag("return_finish_reason", True),
            texts("sampling_parameters", sampling),
        ]
        two = client.infer(MODEL, inputs)
    assert one.get_response().id == "1"
    assert text_of(one) == text_of(two) != ""
    assert text_of(two, "finish_reason") in {"stop", "length"}


def check_stream_equals_the_whole_text(url: str, _: str) -> None:
    """The pieces of a decoupled stream add up to the text of an unstreamed request."""
    with client_of(url) as client:
        inputs = [texts("text_input", PROMPT), flag("stream", True)]
        pieces = streamed(client, inputs, request_id="7", parameters={"max_tokens": 16, "separate_tokens": True})
        whole = client.infer(MODEL, inputs[:1], parameters={"max_tokens": 16})
    assert len(pieces) > 2
    assert {each.get_response().id for each in pieces} == {"7"}
    assert "".join(map(text_of, pieces)) == text_of(whole)


def check_chat(url: str, _: str) -> None:
    """The tensor `messages` has a conversation as JSON; its answer streams as a text does."""
    messages = json.dumps([{"role": "user", "content": "Hello! Who are you?"}])
    options: Any = {"parameters": {"temperature": 0.0, "max_tokens": 12}}
    with client_of(url) as client:
        whole = client.infer(MODEL, [texts("messages", messages)], **options)
        pieces = streamed(client, [texts("messages", messages), flag("stream", True)], **options)
    assert text_of(whole)
    assert "".join(map(text_of, pieces)) == text_of(whole)


def check_embeddings_and_scores(url: str, _: str) -> None:
    """An encoder's vectors and scores are FP32 tensors."""
    with client_of(url) as client:
        vectors = client.infer(ENCODER, [texts("text_input", *DOCUMENTS)]).as_numpy("embeddings")
        ranked = client.infer(ENCODER, [texts("query", "a kitten"), texts("documents", *DOCUMENTS)])
        size = client.get_model_metadata(ENCODER).outputs[0].shape[1]
    assert (vectors.shape, vectors.dtype) == ((len(DOCUMENTS), size), np.float32)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-4)
    assert int(ranked.as_numpy("scores").argmax()) == 1


def check_cancellation(url: str, _: str) -> None:
    """A stream that is stopped ends with CANCELLED."""
    inputs, parameters = [texts("text_input", PROMPT), flag("stream", True)], {"max_tokens": 1000, "ignore_eos": True}
    error: Any = None
    while error is None:  # an answer that has ended before it is stopped proves nothing
        began, ended = threading.Event(), queue.Queue[Any]()

        def receive(result: Any, error: Any, began: threading.Event = began, ended: queue.Queue[Any] = ended) -> None:
            began.set()
            if error is not None or result.get_response().parameters["triton_final_response"].bool_param:
                ended.put(error)

        client = client_of(url)
        client.start_stream(callback=receive)
        client.async_stream_infer(MODEL, inputs, enable_empty_final_response=True, parameters=parameters)
        assert began.wait(TIMEOUT_S)
        client.stop_stream(cancel_requests=True)
        error = ended.get(timeout=TIMEOUT_S)
        client.close()
    assert error.status() == "StatusCode.CANCELLED"


def check_asynchronous_client(url: str, _: str) -> None:
    """The asynchronous client's stream answers several requests, each by its id."""

    async def ask() -> dict[str, str]:
        found: dict[str, str] = {}
        async with triton_aio.InferenceServerClient(url.removeprefix("http://")) as client:

            async def requests() -> Any:
                for index in range(3):
                    parameters = {"max_tokens": 4 + index}
                    inputs = [texts("text_input", PROMPT)]
                    yield {"model_name": MODEL, "inputs": inputs, "request_id": str(index), "parameters": parameters}

            async for result, error in client.stream_infer(requests()):
                assert error is None, error
                found[result.get_response().id] = text_of(result)
        return found

    found = asyncio.run(ask())
    assert sorted(found) == ["0", "1", "2"]
    assert found["2"].startswith(found["1"])
    assert found["1"].startswith(found["0"])


def check_http_client(url: str, _: str) -> None:
    """Over HTTP, metadata, texts, embeddings and scores are as over gRPC, by binary tensors and by JSON."""
    prompt = triton_http.InferInput("text_input", [1], "BYTES")
    options: Any = {"request_id": "9", "parameters": {"max_tokens": 8}}
    with client_of(url) as over_grpc, triton_http.InferenceServerClient(url.removeprefix("http://")) as client:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready(MODEL)
        assert not client.is_model_ready("nobody")
        assert client.get_server_metadata()["name"] == "sluice"
        metadata = over_grpc.get_model_metadata(ENCODER, as_json=True)
        assert [each["name"] for each in client.get_model_metadata(ENCODER)["inputs"]] == [
            each["name"] for each in metadata["inputs"]
        ]
        assert client.get_model_config(MODEL)["model_transaction_policy"]["decoupled"]
        assert {MODEL, ENCODER} <= {each["name"] for each in client.get_model_repository_index()}
        expected = text_of(over_grpc.infer(MODEL, [texts("text_input", PROMPT)], **options))
        for is_binary in (True, False):
            prompt.set_data_from_numpy(np.array([PROMPT.encode()], dtype=np.object_), binary_data=is_binary)
            output = triton_http.InferRequestedOutput("text_output", binary_data=is_binary)
            result = client.infer(MODEL, [prompt], outputs=[output], **options)
            found = result.as_numpy("text_output")[0]
            assert (found.decode() if isinstance(found, bytes) else found) == expected
            assert result.get_response()["id"] == "9"
        vectors = triton_http.InferInput("text_input", [len(DOCUMENTS)], "BYTES")
        vectors.set_data_from_numpy(np.array([each.encode() for each in DOCUMENTS], dtype=np.object_))
        same = over_grpc.infer(ENCODER, [texts("text_input", *DOCUMENTS)]).as_numpy("embeddings")
        assert np.array_equal(client.infer(ENCODER, [vectors]).as_numpy("embeddings"), same)
        try:
            client.infer(MODEL, [prompt], parameters={"temperature": 3.0})
        except InferenceServerException as error:
            assert error.status() == "400"
            assert 'parameters["temperature"]' in error.message(), error
        else:
            raise AssertionError("no error over HTTP")


def check_calls_of_perf_analyzer(url: str, _: str) -> None:
    """Its calls in their order: descriptions, statistics, requests for all outputs of the model, statistics."""
    durations = ("success", "queue", "compute_input", "compute_infer", "compute_output")
    num_requests = 3
    with client_of(url) as client:

        def counted(model: str) -> Any:
            (found,) = client.get_inference_statistics(model).model_stats
            assert int(found.version) > 0  # it reads a number
            return found.inference_stats

        for model, inputs in (
            (MODEL, [texts("text_input", PROMPT), flag("stream", True)]),
            (ENCODER, [texts("text_input", "a")]),
        ):
            assert "statistics" in client.get_server_metadata().extensions
            metadata, config = client.get_model_metadata(model), client.get_model_config(model).config
            assert [each.name for each in metadata.inputs] == [each.name for each in config.input]
            assert [each.name for each in metadata.outputs] == [each.name for each in config.output]
            options: Any = {"outputs": [triton.InferRequestedOutput(each.name) for each in metadata.outputs]}
            before = counted(model)
            for index in range(num_requests):
                options["request_id"] = str(index)
                if config.model_transaction_policy.decoupled:
                    assert len(streamed(client, inputs, **options, parameters={"max_tokens": 4})) > 1
                else:
                    client.infer(model, inputs, **options)
            after = counted(model)
            counts = {name: getattr(after, name).count - getattr(before, name).count for name in durations}
            assert counts == dict.fromkeys(durations, num_requests)


def check_errors(url: str, unavailable_url: str) -> None:
    """Each error has its gRPC status, and names the tensor or the parameter; a stream continues after an error."""
    with client_of(url) as client:
        for model, inputs, parameters, status, words in (
            (
                MODEL,
                [texts("text_input", PROMPT)],
                {"temperature": 3.0},
                "INVALID_ARGUMENT",
                'parameters["temperature"]',
            ),
            (MODEL, [texts("text_input", "a", "b")], {}, "INVALID_ARGUMENT", 'inputs["text_input"]'),
            (MODEL, [texts("nothing", "a")], {}, "INVALID_ARGUMENT", "must have text_input"),
            (
                ENCODER,
                [texts("messages", '[{"role": "user", "content": "a"}]')],
                {},
                "INVALID_ARGUMENT",
                "makes vectors",
            ),
            ("nobody", [texts("text_input", "a")], {}, "NOT_FOUND", "nobody"),
        ):
            try:
                client.infer(model, inputs, parameters=parameters)
            except InferenceServerException as error:
                assert error.status() == f"StatusCode.{status}", error
                assert words in error.message(), error
            else:
                raise AssertionError(f"no error for {words}")
        try:
            streamed(client, [texts("text_input", PROMPT), flag("stream", True)], parameters={"top_p": 2.0})
        except InferenceServerException as error:
            assert 'parameters["top_p"]' in error.message(), error
        else:
            raise AssertionError("no error in the stream")
