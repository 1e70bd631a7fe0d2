"""The gateway's way to the service: one channel, and the calls on it.

Owns the channel, the metadata and deadline of each call, its client span, and its end: whoever leaves a call before
it ended has cancelled it. Raises Failure, never grpc's own errors. Used on the event loop that opened it. It knows no
HTTP and no JSON.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from opentelemetry import trace
from sluice.v1 import chat_pb2, chat_pb2_grpc, model_pb2, model_pb2_grpc

from gateway import telemetry as names
from gateway.config import Settings
from gateway.errors import to_failure
from gateway.telemetry import Telemetry

_MAX_ROUTING_LENGTH = 256  # as long as a model's name may be; a longer one is the service's to refuse


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: the request's id, and what the caller sent as `authorization`."""

    request_id: str
    authorization: str | None = None


class ServiceClient:
    """Calls of one service."""

    def __init__(self, channel: grpc.aio.Channel, settings: Settings, telemetry: Telemetry) -> None:
        self._settings = settings
        self._telemetry = telemetry
        self._chat = chat_pb2_grpc.ChatServiceStub(channel)
        self._models = model_pb2_grpc.ModelServiceStub(channel)
        self._health: Any = health_pb2_grpc.HealthStub(channel)  # it ships no types

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(cls, settings: Settings, telemetry: Telemetry) -> AsyncIterator[ServiceClient]:
        """A client on a channel of its own. The service may come and go: calls fail while it is away."""
        options = [
            ("grpc.keepalive_time_ms", 30_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            ("grpc.http2.max_pings_without_data", 0),  # a long prefill is silent and alive
            ("grpc.initial_reconnect_backoff_ms", 200),
            ("grpc.max_reconnect_backoff_ms", 2_000),
            ("grpc.enable_retries", 0),  # what has begun to generate is never begun again
            ("grpc.max_send_message_length", -1),  # bodies are bounded at the door
            ("grpc.max_receive_message_length", settings.max_response_bytes),
        ]
        async with grpc.aio.insecure_channel(settings.target, options) as channel:
            yield cls(channel, settings, telemetry)

    async def chat(self, request: chat_pb2.ChatRequest, caller: Caller, affinity: str) -> chat_pb2.ChatResponse:
        """A whole answer. Raises Failure."""
        with self._span("sluice.v1.ChatService/Chat") as outcome:
            call = self._chat.Chat(
                request,
                timeout=self._settings.request_deadline_s,
                metadata=self._metadata(caller, request.model, affinity),
            )
            async with _ending(call, outcome):
                return await call

    @contextlib.asynccontextmanager
    async def stream_chat(
        self, request: chat_pb2.ChatRequest, caller: Caller, affinity: str
    ) -> AsyncIterator[AsyncIterator[chat_pb2.StreamChatResponse]]:
        """An answer's events. Reading them raises what leaving the block turns into Failure."""
        with self._span("sluice.v1.ChatService/StreamChat") as outcome:
            call = self._chat.StreamChat(
                request,
                timeout=self._settings.request_deadline_s,
                metadata=self._metadata(caller, request.model, affinity),
            )
            async with _ending(call, outcome):
                yield aiter(call)

    async def list_models(self, caller: Caller) -> list[model_pb2.Model]:
        """All models. Raises Failure."""
        with self._span("sluice.v1.ModelService/ListModels") as outcome:
            call = self._models.ListModels(
                model_pb2.ListModelsRequest(),
                timeout=self._settings.lookup_deadline_s,
                metadata=self._metadata(caller),
            )
            async with _ending(call, outcome):
                return list((await call).models)

    async def get_model(self, name: str, caller: Caller) -> model_pb2.Model:
        """One model. Raises Failure."""
        with self._span("sluice.v1.ModelService/GetModel") as outcome:
            call = self._models.GetModel(
                model_pb2.GetModelRequest(model=name),
                timeout=self._settings.lookup_deadline_s,
                metadata=self._metadata(caller, name),
            )
            async with _ending(call, outcome):
                return (await call).model

    async def unready_reason(self) -> str | None:
        """Why the service can't serve now; None if it can. Makes no trace."""
        try:
            answer = await self._health.Check(health_pb2.HealthCheckRequest(), timeout=self._settings.lookup_deadline_s)
        except grpc.aio.AioRpcError as error:
            return to_failure(error).text
        if answer.status == health_pb2.HealthCheckResponse.SERVING:
            return None
        status: str = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
        return f"the service says {status}"

    def _metadata(self, caller: Caller, model: str = "", affinity: str = "") -> list[tuple[str, str]]:
        metadata = [("x-request-id", caller.request_id), *self._telemetry.inject().items()]
        if caller.authorization is not None and caller.authorization.isascii() and caller.authorization.isprintable():
            metadata.append(("authorization", caller.authorization))
        if model:
            metadata.append(("x-sluice-model", quote(model[:_MAX_ROUTING_LENGTH], safe="")))
        if affinity:
            metadata.append(("x-sluice-affinity", quote(affinity[:_MAX_ROUTING_LENGTH], safe="")))
        return metadata

    @contextlib.contextmanager
    def _span(self, method: str) -> Iterator[_Outcome]:
        """The call's client span, active within, and its duration."""
        attributes = {
            names.RPC_SYSTEM_NAME: "grpc",
            names.RPC_METHOD: method,
            names.SERVER_ADDRESS: self._settings.target,
        }
        begun = time.perf_counter()
        outcome = _Outcome()
        with self._telemetry.tracer.start_as_current_span(
            method,
            kind=trace.SpanKind.CLIENT,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield outcome
            finally:
                attributes[names.RPC_STATUS_CODE] = outcome.code.name
                if outcome.code is not grpc.StatusCode.OK:
                    attributes[names.ERROR_TYPE] = outcome.code.name
                    span.set_status(trace.StatusCode.ERROR)
                span.set_attributes(attributes)
                self._telemetry.call_duration.record(time.perf_counter() - begun, attributes)


@dataclass(slots=True)
class _Outcome:
    """How a call ended, filled in when it did."""

    code: grpc.StatusCode = grpc.StatusCode.CANCELLED


@contextlib.asynccontextmanager
async def _ending(call: grpc.aio.Call, outcome: _Outcome) -> AsyncIterator[None]:
    """Cancel the call unless it ended, and say how it ended. An abandoned call would run on for ever."""
    try:
        yield
        if call.done():
            outcome.code = await call.code()
    except grpc.aio.AioRpcError as error:
        outcome.code = error.code()
        raise to_failure(error) from None
    finally:
        call.cancel()
