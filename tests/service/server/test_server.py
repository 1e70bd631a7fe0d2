"""The server as a whole: reflection, limits, and shutdown."""

import asyncio
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_database import DescriptorDatabase
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from sluice.v1 import chat_pb2, load_pb2, model_pb2

from service.observability.health import ServingPhase
from service.observability.telemetry import Telemetry
from service.server.listener import StartError
from service.server.server import Server
from service.server.services import SERVICES
from tests.engine.fakes import until
from tests.service.chat_events import kinds_of
from tests.service.fakes import ENDLESS, MODEL, ScriptedRunner, rejection_of, request, rest_of, running, settings_of


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
async def test_server_reflects_its_services(version: str) -> None:
    """Both versions of reflection list every service, including health and reflection, with their files."""
    async with running() as run:
        reflect: Any = run.channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
        )
        reflection_request = reflection_pb2.ServerReflectionRequest
        (listed,) = [answer async for answer in reflect(iter([reflection_request(list_services="")]))]
        names = sorted(service.name for service in listed.list_services_response.service)
        described = [
            answer async for answer in reflect(reflection_request(file_containing_symbol=name) for name in names)
        ]
    own = ("grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")
    assert names == sorted((*SERVICES, *own))
    for name, answer in zip(names, described, strict=True):
        files = DescriptorDatabase()
        for content in answer.file_descriptor_response.file_descriptor_proto:
            files.Add(descriptor_pb2.FileDescriptorProto.FromString(content))
        assert DescriptorPool(files).FindServiceByName(name).methods


async def test_a_v1alpha_stub_finds_the_services() -> None:
    """Clients that know only the older version, such as grpcio-reflection's own, can use it."""
    async with running() as run:
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(run.channel)  # type: ignore[arg-type]  # it takes both
        reflection_request = reflection_pb2.ServerReflectionRequest(file_containing_symbol="sluice.v1.ChatService")
        (answer,) = [each async for each in stub.ServerReflectionInfo(iter([reflection_request]))]
    content = answer.file_descriptor_response.file_descriptor_proto[0]
    assert descriptor_pb2.FileDescriptorProto.FromString(content).name == "sluice/v1/chat.proto"


@pytest.mark.parametrize(
    ("symbol", "file"),
    [
        ("sluice.v1.ChatService", "sluice/v1/chat.proto"),
        ("sluice.v1.ChatService.StreamChat", "sluice/v1/chat.proto"),
        ("sluice.v1.ChatRequest", "sluice/v1/chat.proto"),
        ("sluice.v1.ChatRequest.model", "sluice/v1/chat.proto"),
        ("sluice.v1.StreamChatResponse.event", "sluice/v1/chat.proto"),
        ("sluice.v1.Task", "sluice/v1/model.proto"),
        ("sluice.v1.TASK_CHAT", "sluice/v1/model.proto"),
        ("sluice.v1.policy", "sluice/v1/rpc.proto"),
        ("grpc.health.v1.Health.Check", "grpc_health/v1/health.proto"),
        ("grpc.reflection.v1.ServerReflection.ServerReflectionInfo", "grpc/reflection/v1/reflection.proto"),
        ("sluice.v1.ChatService.Nothing", None),
        ("sluice.v1", None),
        ("", None),
    ],
)
async def test_server_reflects_every_kind_of_symbol(symbol: str, file: str | None) -> None:
    """Reflection finds the file of a service, method, message, field, oneof, enum, value and extension."""
    async with running() as run:
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(run.channel)  # type: ignore[arg-type]  # it takes both
        reflection_request = reflection_pb2.ServerReflectionRequest(file_containing_symbol=symbol)
        (answer,) = [each async for each in stub.ServerReflectionInfo(iter([reflection_request]))]
    files = answer.file_descriptor_response.file_descriptor_proto
    names = [descriptor_pb2.FileDescriptorProto.FromString(content).name for content in files]
    assert names[:1] == ([file] if file else [])
    assert answer.error_response.error_code == (0 if file else grpc.StatusCode.NOT_FOUND.value[0])


async def test_server_lists_and_describes_models() -> None:
    """ListModels has every model, GetModel the requested one, and an unknown one is NOT_FOUND."""
    async with running() as run:
        listed = await run.models.ListModels(model_pb2.ListModelsRequest())
        got = await run.models.GetModel(model_pb2.GetModelRequest(model=MODEL))
        rejection = await rejection_of(run.models.GetModel(model_pb2.GetModelRequest(model="nobody")))
    assert [model.name for model in listed.models] == [MODEL]
    assert got.model == listed.models[0]
    assert (rejection.code, rejection.info.reason) == (grpc.StatusCode.NOT_FOUND, "MODEL_NOT_FOUND")


async def test_server_rejects_a_message_too_large() -> None:
    """The call ends with RESOURCE_EXHAUSTED, and the connection stays open."""
    async with running(max_request_bytes=1000) as run:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await run.chat.Chat(request("x" * 2000))
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await run.chat.Chat(request("x"))


@pytest.mark.slow
async def test_server_rejects_calls_that_waited_too_long() -> None:
    """Calls are rejected once all of them have waited too long in gRPC's queue for a second.

    The wait follows from the remaining time. A single late call is served, and so is a client without another call.
    """
    runner = ScriptedRunner("hello")
    late = (("x-sluice-timeout", "600S"),)  # as if half of ten minutes had passed
    async with running(runner, engine={"max_queue_wait_s": 60}) as run:
        assert await run.chat.Chat(request(), timeout=300, metadata=late)
        with runner.paused(after=1):
            first = run.chat.StreamChat(request())
            await first.read()
            calls: list[Any] = []
            while not any(call.done() for call in calls):
                calls.append(run.chat.Chat(request(), timeout=300, metadata=late))
                await asyncio.sleep(0.1)  # if it takes more than two seconds, only later calls count
            rejection = await rejection_of(next(call for call in calls if call.done()))
            for call in calls:
                call.cancel()
        assert kinds_of([event async for event in rest_of(first)])[-1] == "completed"
        await run.until_idle()
        assert await run.chat.Chat(request(), timeout=600, metadata=late)
    assert (rejection.code, rejection.info.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "QUEUE_FULL")
    assert rejection.retry_after_s is not None
    assert "would wait for about" in rejection.text


async def test_server_rejects_calls_above_its_limit() -> None:
    """A call above the limit is QUEUE_FULL with the limit until one ends. Health and load don't count."""
    runner = ScriptedRunner("hello")
    async with running(runner, max_concurrent_calls=1) as run:
        with runner.paused(after=1):
            first = run.chat.StreamChat(request())
            await first.read()
            rejection = await rejection_of(run.chat.Chat(request()))
            assert await run.status() == "SERVING"
            assert (await run.models.GetLoad(load_pb2.GetLoadRequest())).models[0].model == MODEL
        assert kinds_of([event async for event in rest_of(first)])[-1] == "completed"
        assert await run.chat.Chat(request())
    assert (rejection.code, rejection.info.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "QUEUE_FULL")
    assert rejection.info.metadata["limit"] == "1"


async def test_server_drains_a_running_stream_to_its_end() -> None:
    """During shutdown, a running stream continues to `completed` while new calls are rejected."""
    runner = ScriptedRunner("hello")
    async with running(runner) as run:
        with runner.paused(after=1):
            running_one = run.chat.StreamChat(request())
            await running_one.read()
            stop = asyncio.create_task(run.server.drain())
            await until(lambda: run.server.health.phase is ServingPhase.DRAINING)
            rejection = await rejection_of(run.chat.Chat(request()))
            assert not stop.done()
        events = [event async for event in rest_of(running_one)]
        await stop
    assert (rejection.code, rejection.info.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
    assert rejection.retry_after_s
    assert kinds_of(events)[-1] == "completed"


async def test_server_accepts_calls_during_the_drain_delay() -> None:
    """Between NOT_SERVING and the first rejection, load balancers have time to use other replicas."""
    async with running(drain_delay_s=60) as run:
        stop = asyncio.create_task(run.server.drain())
        await run.until_status("NOT_SERVING")
        assert await run.chat.Chat(request())
        stop.cancel()


async def test_stream_above_the_drain_timeout_is_unavailable() -> None:
    """A stream that exceeds the drain time ends with UNAVAILABLE, after its usage."""
    async with running(ScriptedRunner("on and ", end=False), engine=ENDLESS, drain_timeout_s=0.05) as run:
        endless = run.chat.StreamChat(request())
        await endless.read()
        await until(lambda: run.engine.stats().num_generated_tokens > 0)
        await run.server.drain()
        rejection = await rejection_of(endless)
        await run.until_idle()
    assert (rejection.code, rejection.info.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
    assert rejection.events[-1].HasField("usage")


async def test_server_does_not_share_a_port() -> None:
    """A port in use is a one-line error with its number."""
    async with running() as run:
        second = Server(settings_of(port=run.port), Telemetry(None))
        with pytest.raises(StartError, match=f"^can't listen on 127.0.0.1:{run.port}: Address already in use$"):
            await second.start()
        await second.close()


async def test_unknown_model_is_not_found() -> None:
    """The error names the requested model."""
    async with running() as run:
        rejection = await rejection_of(
            run.chat.StreamChat(chat_pb2.ChatRequest(model="nobody", messages=request().messages))
        )
    assert (rejection.code, rejection.info.metadata["model"]) == (grpc.StatusCode.NOT_FOUND, "nobody")
