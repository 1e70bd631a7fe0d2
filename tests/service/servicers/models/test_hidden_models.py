"""Models and endpoints that a key may not use are invisible to it in every RPC.

The service has the models `seen1` and `hidn1`, and the endpoints `seen2` (over seen1), `hidn2` (a name that the key may
not use) and `hidn3` (a permitted name over a model that the key may not use). Unused names have the length of the
hidden ones, so that errors can be compared byte for byte.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import json_format
from google.protobuf.descriptor_pool import Default
from google.protobuf.message_factory import GetMessageClass
from grpc import aio

from service.interceptors.rpcs import RPCS
from tests.service.auth.key_files import write
from tests.service.endpoint_fakes import serving
from tests.service.fakes import Rejection, rejection_of

ALL = ["generate", "embed", "tokenize", "endpoints:read", "endpoints:write", "metrics", "admin"]
KEYS = {
    "team": {"scopes": ALL, "models": ["seen*", "encoder"], "endpoints": ["seen*", "hidn3", "nobd3"]},
    "operator": {"scopes": ALL},
}
PAIRS = [("hidn1", "nobd1"), ("hidn2", "nobd2"), ("hidn3", "nobd3")]


def message(model: str) -> dict[str, Any]:
    """Return a request with one message."""
    return {"model": model, "messages": [{"role": "ROLE_USER", "content": [{"text": "hi"}]}]}


def full_name(name: str) -> str:
    """Return the name of a service, or of its method, with the package."""
    return f"inference.{name}" if name.startswith("GRPCInferenceService") else f"sluice.v1.{name}"


def entities(model: str) -> list[dict[str, Any]]:
    """Return an entity with all traffic for one model."""
    return [{"name": "only", "model": model, "trafficPercentage": 100}]


# For each RPC, the requests that contain a name.
BY_NAME: list[tuple[str, Any]] = [
    ("ChatService/Chat", message),
    ("ChatService/StreamChat", message),
    ("CompletionService/Complete", lambda name: {"model": name, "prompts": [{"text": "a"}]}),
    ("CompletionService/StreamComplete", lambda name: {"model": name, "prompts": [{"text": "a"}]}),
    (
        "ResponseService/CreateResponse",
        lambda name: {"model": name, "input": [{"message": message("")["messages"][0]}]},
    ),
    (
        "ResponseService/StreamResponse",
        lambda name: {"model": name, "input": [{"message": message("")["messages"][0]}]},
    ),
    ("TextGenerationService/GenerateText", lambda name: {"model": name, "textInput": "a"}),
    ("TextGenerationService/GenerateText", lambda name: {"model": name, "textInput": "a", "modelVersion": "7"}),
    ("TextGenerationService/StreamGenerateText", lambda name: {"model": name, "textInput": "a"}),
    ("EmbeddingService/Embed", lambda name: {"model": name, "inputs": [{"text": "a"}]}),
    ("RankService/Rank", lambda name: {"model": name, "query": "a", "documents": ["b"]}),
    ("RankService/Score", lambda name: {"model": name, "queries": ["a"], "documents": ["b"]}),
    ("TokenService/TokenizeText", lambda name: {"model": name, "text": "a"}),
    ("TokenService/DetokenizeText", lambda name: {"model": name, "tokenIds": [97]}),
    ("TokenService/CountTokens", lambda name: {"text": {"model": name, "text": "a"}}),
    ("TokenService/CountTokens", lambda name: {"chat": message(name)}),
    ("WatermarkService/DetectWatermark", lambda name: {"model": name, "text": "a"}),
    ("ModelService/GetModel", lambda name: {"model": name}),
    ("ModelService/KeepModel", lambda name: {"model": name}),
    ("ModelService/UnloadModel", lambda name: {"model": name}),
    ("ModelService/SleepModel", lambda name: {"model": name}),
    ("ModelService/WakeModel", lambda name: {"model": name}),
    ("AdapterService/LoadAdapter", lambda name: {"model": name, "name": "a", "path": "a"}),
    ("AdapterService/UnloadAdapter", lambda name: {"model": name, "name": "a"}),
    ("AdapterService/ListAdapters", lambda name: {"model": name}),
    ("GRPCInferenceService/ModelMetadata", lambda name: {"name": name}),
    ("GRPCInferenceService/ModelConfig", lambda name: {"name": name}),
    ("GRPCInferenceService/ModelStatistics", lambda name: {"name": name}),
    ("GRPCInferenceService/ModelInfer", lambda name: {"modelName": name, "inputs": [{"name": "text_input"}]}),
    ("GRPCInferenceService/RepositoryModelUnload", lambda name: {"modelName": name}),
    ("EndpointService/GetEndpoint", lambda name: {"name": name}),
    ("EndpointService/DeleteEndpoint", lambda name: {"name": name}),
    ("EndpointService/UpdateEndpoint", lambda name: {"name": name, "entities": entities("seen1")}),
    ("EndpointService/UpdateEndpoint", lambda name: {"name": "seen2", "entities": entities(name)}),
    ("EndpointService/CreateEndpoint", lambda name: {"name": "seen9", "entities": entities(name)}),
]


@dataclass
class Guarded:
    """A service with API keys, whose RPCs are called by name."""

    channel: aio.Channel
    keys: dict[str, str]

    def call(self, key_id: str, method: str, fields: dict[str, Any]) -> Any:
        """Call `method` ("Service/Method") with that key."""
        service, _, name = method.partition("/")
        rpc = Default().FindServiceByName(full_name(service)).methods_by_name[name]
        request = json_format.ParseDict(fields, GetMessageClass(rpc.input_type)())
        begin: Any = self.channel.unary_stream if rpc.server_streaming else self.channel.unary_unary
        begin = begin(
            f"/{full_name(method)}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=GetMessageClass(rpc.output_type).FromString,
        )
        return begin(request, metadata=(("authorization", f"Bearer {self.keys[key_id]}"), ("x-request-id", "r")))

    async def names(self, key_id: str, method: str) -> list[str]:
        """Return the names in a list."""
        answer = await self.call(key_id, method, {})
        return [each.name for each in (*getattr(answer, "models", ()), *getattr(answer, "endpoints", ()))]


@asynccontextmanager
async def guarded(path: Path) -> AsyncIterator[Guarded]:
    """Run the service that the module's docstring describes."""
    made = write(path, **KEYS)
    configured = [{"name": "hidn2", "entities": [{"name": "only", "model": "seen1", "traffic_percentage": 100}]}]
    async with (
        serving("seen1", "hidn1", auth={"keys_file": path}, endpoints=configured) as run,
        aio.insecure_channel(f"127.0.0.1:{run.port}") as channel,
    ):
        service = Guarded(channel, made)
        for name, model in (("seen2", "seen1"), ("hidn3", "hidn1")):
            await service.call(
                "operator", "EndpointService/CreateEndpoint", {"name": name, "entities": entities(model)}
            )
        yield service


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of the keys file."""
    return tmp_path / "keys.yaml"


WITHOUT_MODELS = tuple(f"sluice.v1.{name}Service" for name in ("Conversation", "File", "Batch", "Operation"))


def test_every_rpc_has_a_case() -> None:
    """Every RPC has a case, except the lists, which have separate tests."""
    tried = {full_name(method) for method, _ in BY_NAME}
    # LoadModel names a new model instead of an existing one; GetUsage, ListReceiptKeys and what is stored have none.
    lists = {
        "QuotaService/GetUsage",
        "ReceiptService/ListReceiptKeys",
        "ResponseService/GetResponse",
        "ResponseService/DeleteResponse",
        "ResponseService/ListInputItems",
        "ResponseService/FollowResponse",
        "ResponseService/CancelResponse",
        "ResponseService/ReplayResponse",
        *(name.removeprefix("sluice.v1.") for name in RPCS if name.split("/")[0] in WITHOUT_MODELS),
        "ModelService/LoadModel",
        "ModelService/ListModels",
        "ModelService/GetLoad",
        "EndpointService/ListEndpoints",
        # The server's state, a new model's name, a truth value, and a stream that begins its requests as ModelInfer.
        "GRPCInferenceService/ServerLive",
        "GRPCInferenceService/ServerReady",
        "GRPCInferenceService/ServerMetadata",
        "GRPCInferenceService/RepositoryIndex",
        "GRPCInferenceService/RepositoryModelLoad",
        "GRPCInferenceService/ModelReady",
        "GRPCInferenceService/ModelStreamInfer",
    }
    # They name no model, or one in their metadata, for which tests/service/servicers/vllm/ has cases.
    engine = {name for name in RPCS if name.startswith("vllm.")}
    assert tried == set(RPCS) - set(map(full_name, lists)) - engine


def error_content(rejection: Rejection, name: str) -> tuple[grpc.StatusCode, str, bytes]:
    """Return everything in an error, with the requested name replaced."""
    details = dict(rejection.error.trailing_metadata() or ())["grpc-status-details-bin"]
    assert isinstance(details, bytes)
    return rejection.code, rejection.text.replace(name, "NAME"), details.replace(name.encode(), b"NAME")


async def test_hidden_name_is_rejected_like_an_unknown_one(path: Path) -> None:
    """Status, text and details equal those of an unused name byte for byte, whatever other keys may use."""
    async with guarded(path) as service:
        for method, fields in BY_NAME:
            for hidden, nobodys in PAIRS:
                hidden_error = error_content(await rejection_of(service.call("team", method, fields(hidden))), hidden)
                unused_error = error_content(await rejection_of(service.call("team", method, fields(nobodys))), nobodys)
                assert hidden_error == unused_error, (method, hidden)
                assert hidden_error[0] is grpc.StatusCode.NOT_FOUND, (method, hidden)


async def test_only_visible_names_are_suggested(path: Path) -> None:
    """The error about a misspelt name suggests the closest name that the key may use, and no hidden one."""
    async with guarded(path) as service:
        for key, name, text in (
            ("team", "seenn1", "no model named 'seenn1' is served; did you mean seen1?"),
            ("team", "encodr", "no model named 'encodr' is served; did you mean encoder?"),
            ("operator", "hidnn2", "no model named 'hidnn2' is served; did you mean hidn2?"),
            ("operator", "nobody", "no model named 'nobody' is served"),
        ):
            assert (await rejection_of(service.call(key, "ChatService/Chat", message(name)))).text == text
            assert (await rejection_of(service.call(key, "ModelService/GetModel", {"model": name}))).text == text
        assert (
            "did you mean" not in (await rejection_of(service.call("team", "ChatService/Chat", message("hidnn1")))).text
        )


async def test_lists_have_only_names_that_the_key_may_use(path: Path) -> None:
    """A list has the names that the key may use and no others; an unrestricted key sees everything."""
    async with guarded(path) as service:
        assert await service.names("team", "ModelService/ListModels") == ["seen1", "encoder"]
        assert await service.names("team", "GRPCInferenceService/RepositoryIndex") == ["seen1", "encoder"]
        assert await service.names("team", "EndpointService/ListEndpoints") == ["encoder", "seen1", "seen2"]
        everything = ["encoder", "hidn1", "hidn2", "hidn3", "seen1", "seen2"]
        assert await service.names("operator", "EndpointService/ListEndpoints") == everything


async def test_load_report_has_only_models_that_the_key_may_use(path: Path) -> None:
    """The load report has no other model and no other endpoint."""
    async with guarded(path) as service:
        load = await service.call("team", "ModelService/GetLoad", {})
        assert [each.model for each in load.models] == ["seen1", "encoder"]
        assert [(each.endpoint, each.model) for each in load.entities] == [("seen2", "seen1")]
        everything = await service.call("operator", "ModelService/GetLoad", {})
        assert [each.endpoint for each in everything.entities] == ["hidn2", "hidn3", "seen2"]


async def test_visible_model_answers_by_name_and_endpoint(path: Path) -> None:
    """A visible model answers by its name and through its endpoint."""
    async with guarded(path) as service:
        for name in ("seen1", "seen2"):
            assert (await service.call("team", "ChatService/Chat", message(name))).model == "seen1"
        changed = {"name": "seen2", "entities": entities("seen1")}
        assert (await service.call("team", "EndpointService/UpdateEndpoint", changed)).endpoint.config_version == 2


async def test_key_creates_endpoints_only_under_permitted_names(path: Path) -> None:
    """Other names are rejected whether they are taken or not; a permitted name that is taken already exists."""
    async with guarded(path) as service:
        for name in ("hidn1", "hidn2", "nobd1"):
            made = service.call("team", "EndpointService/CreateEndpoint", {"name": name, "entities": entities("seen1")})
            rejection = await rejection_of(made)
            assert rejection.code is grpc.StatusCode.PERMISSION_DENIED
            assert rejection.text == f"the key may not make an endpoint named {name!r}"
        mine = {"name": "hidn3", "entities": entities("seen1")}
        taken = await rejection_of(service.call("team", "EndpointService/CreateEndpoint", mine))
        assert taken.code is grpc.StatusCode.ALREADY_EXISTS
        entity = (await service.call("operator", "EndpointService/GetEndpoint", {"name": "hidn3"})).endpoint.entities[0]
        assert entity.model == "hidn1"
