"""The mapping between HTTP and gRPC: every RPC has its row, and every path the dialect of its errors."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from google.protobuf.symbol_database import Default
from sluice.inference import inference_pb2
from sluice.v1 import (
    batch_pb2,
    chat_pb2,
    completion_pb2,
    conversation_pb2,
    embedding_pb2,
    endpoint_pb2,
    file_pb2,
    model_pb2,
    quota_pb2,
    rank_pb2,
    receipt_pb2,
    response_event_pb2,
    response_pb2,
    text_generation_pb2,
    token_pb2,
)

import gateway
from gateway.dialects.seam.encoder import ends_answer
from gateway.dialects.seam.error_response import ErrorResponse
from gateway.dialects.seam.failure import Failure, Reason
from gateway.routes.surface.surface import Surface, SurfaceMap
from gateway.settings.config import Settings
from gateway.upstream.methods import MethodTable

GENERATING = [chat_pb2, completion_pb2, embedding_pb2, rank_pb2, response_pb2, text_generation_pb2]
OVER_GRPC_ALONE = {"ModelStreamInfer"}
LOADING = {"LoadModel", "UnloadModel", "SleepModel", "WakeModel", "RepositoryModelLoad", "RepositoryModelUnload"}
ALSO_RUNNING_MODELS = {"ModelInfer", "KeepModel"}

OF_STORED_RESPONSES = {
    "GetResponse",
    "DeleteResponse",
    "ListInputItems",
    "CancelResponse",
    "FollowResponse",
}


async def test_every_rpc_is_in_the_method_table() -> None:
    """Each call of these services is found by its request's type; those that run a model have the long deadline."""
    settings = Settings()
    async with grpc.aio.insecure_channel("127.0.0.1:1") as channel:
        table = MethodTable(channel, settings)
    found = set()
    for module in [
        *GENERATING,
        batch_pb2,
        conversation_pb2,
        endpoint_pb2,
        file_pb2,
        inference_pb2,
        model_pb2,
        quota_pb2,
        receipt_pb2,
        token_pb2,
    ]:
        for service in module.DESCRIPTOR.services_by_name.values():
            for rpc in service.methods:
                if rpc.name in OVER_GRPC_ALONE:
                    continue
                rows = table.stream if rpc.server_streaming else table.whole
                rows = table.upload if rpc.client_streaming else rows
                method = rows[Default().GetSymbol(rpc.input_type.full_name)]
                assert method.name == f"{service.full_name}/{rpc.name}"
                runs_model = (
                    module in GENERATING and rpc.name not in OF_STORED_RESPONSES
                ) or rpc.name in ALSO_RUNNING_MODELS
                assert method.needs_capacity == runs_model
                is_long = runs_model or rpc.server_streaming or rpc.client_streaming
                expected_s = settings.request_deadline_s if is_long else settings.lookup_deadline_s
                assert method.deadline_s == (3600 if rpc.name in LOADING else expected_s)
                found.add(method.name)
    assert found == {method.name for rows in (table.whole, table.stream, table.upload) for method in rows.values()}


def test_only_the_client_imports_generated_stubs() -> None:
    """Only the client imports generated stubs, those of health checks."""
    folder = Path(gateway.__file__).parent
    users = {path.relative_to(folder).as_posix() for path in folder.rglob("*.py") if "_pb2_grpc" in path.read_text()}
    assert users == {"upstream/client.py"}


@pytest.mark.parametrize(
    ("event", "is_end"),
    [
        (chat_pb2.StreamChatResponse(completed=chat_pb2.ChatCompleted()), True),
        (completion_pb2.StreamCompleteResponse(completed=completion_pb2.CompletionCompleted()), True),
        (text_generation_pb2.StreamGenerateTextResponse(completed={}), True),
        (response_event_pb2.StreamResponseResponse(completed={}), True),
        (response_event_pb2.StreamResponseResponse(incomplete={}), True),
        (response_event_pb2.StreamResponseResponse(created={}), False),
        (chat_pb2.StreamChatResponse(usage={}), False),
        (chat_pb2.StreamChatResponse(), False),
        (None, False),
    ],
)
def test_answer_is_complete_after_its_terminal_event(event: object, *, is_end: bool) -> None:
    """An answer is complete only after its terminal event."""
    assert ends_answer(event) == is_end  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v1", b"one"),
        ("/v1/x", b"one"),
        ("/v12", b"one"),  # nobody's: the first takes it
        ("/", b"one"),
        ("/models", b"two"),
        ("/models/a/b", b"two"),
        ("/models/deep", b"three"),
        ("/models/deep/x", b"three"),
        ("/models/deeper", b"two"),
        ("/modelsx", b"one"),
    ],
)
def test_longest_prefix_selects_the_error_format(path: str, expected: bytes) -> None:
    """The longest prefix of whole segments selects the error format."""
    one, two, three = (
        Surface("", object, lambda _, name=name: ErrorResponse(404, name), prefixes, [])  # type: ignore[misc]
        for name, prefixes in ((b"one", ("/v1",)), (b"two", ("/models",)), (b"three", ("/models/deep",)))
    )
    failure = Failure(Reason.ROUTE_NOT_FOUND, "")
    scope = {"type": "http", "path": path, "headers": [], "state": {"request_id": "r"}}
    assert SurfaceMap([one, two, three]).error_response(scope, failure).body == expected
    assert failure.request_id == "r"


@pytest.mark.parametrize("path", ["/v1/x", "/models/deep", "/"])
def test_header_selects_the_dialect(path: str) -> None:
    """A request with one dialect's own header gets errors with that dialect's format and headers."""
    one = Surface("", object, lambda _: ErrorResponse(404, b"one"), ("/v1",), [])
    two = Surface(
        "",
        object,
        lambda _: ErrorResponse(404, b"two", ((b"a", b"b"),)),
        (),
        [],
        headers=lambda request_id, _: [(b"own-id", request_id.encode())],
        marked_by="two-version",
    )
    scope = {"type": "http", "path": path, "headers": [(b"two-version", b"1")], "state": {"request_id": "r"}}
    rejection = SurfaceMap([one, two]).error_response(scope, Failure(Reason.ROUTE_NOT_FOUND, ""))
    assert (rejection.body, rejection.headers) == (b"two", ((b"a", b"b"), (b"own-id", b"r")))
