"""The gateway's client of the service: one channel, and the calls on it.

Each call has metadata, a deadline and a client span; whoever leaves a call before it ended has cancelled it. Raises
Failure, never grpc's own errors. To be used on the event loop that opened it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import grpc
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2, health_pb2_grpc
from opentelemetry import trace
from sluice.v1 import endpoint_pb2, load_pb2, model_pb2

from gateway import telemetry as names
from gateway.config import Settings
from gateway.http.cost import ASKING, asks_for_cost, note_cost
from gateway.http.rate_limits import note_rate_limits
from gateway.telemetry import Telemetry
from gateway.upstream.affinity import affinity_key
from gateway.upstream.channel import open_channel
from gateway.upstream.errors import to_failure
from gateway.upstream.methods import Method, MethodTable
from gateway.upstream.pushback import Asked, Pushback
from process.telemetry.attributes import ERROR_TYPE, RPC_METHOD, RPC_STATUS_CODE, RPC_SYSTEM_NAME

_MAX_ROUTING_LENGTH = 256  # as long as a model's name may be; a longer one is the service's to refuse
_MAX_CREDENTIAL_LENGTH = 6_000  # metadata has 8 KiB in all; what is cut here is wrong there
_BEARER = "bearer "
_KEY_HEADERS = ("api-key", "x-api-key")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: the request's id, and the caller's credential as `authorization` has it.

    `scope` is one that a call takes besides its own, for what the gateway itself answers. `timeout_s` is how long the
    caller waits, if not as long as a call may take, `wants_cost` whether the caller asks what the answer has cost.
    """

    request_id: str
    authorization: str | None = None
    scope: str = ""
    timeout_s: float | None = None
    wants_cost: bool = False

    @classmethod
    def of(cls, request_id: str, headers: Mapping[str, str]) -> Caller:
        """By the headers, names in lower case.

        A key in `api-key`, as Azure's clients send it, or in `x-api-key` is a bearer token, unless there is one.
        """
        authorization = headers.get("authorization")
        if authorization is None or authorization[: len(_BEARER)].lower() != _BEARER:
            key = next((headers[name] for name in _KEY_HEADERS if name in headers), None)
            authorization = authorization if key is None else f"Bearer {key}"
        return cls(request_id, authorization, wants_cost=asks_for_cost(headers))


class ServiceClient:
    """Calls of one service."""

    def __init__(self, channel: grpc.aio.Channel, settings: Settings, telemetry: Telemetry) -> None:
        self._settings = settings
        self._telemetry = telemetry
        self._pushback = Pushback()
        self.use(channel)

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(cls, settings: Settings, telemetry: Telemetry) -> AsyncIterator[ServiceClient]:
        """A client on a channel of its own. Raises TlsError."""
        async with open_channel(settings) as channel:
            client = cls(channel.current, settings, telemetry)
            channel.on_change = client.use
            yield client

    def use(self, channel: grpc.aio.Channel) -> None:
        """Begin calls on this channel from now on."""
        self._methods = MethodTable(channel, self._settings)
        self._health: Any = health_pb2_grpc.HealthStub(channel)  # it ships no types

    async def call(self, request: Message, caller: Caller, affinity: str = "", *, spent_s: float = 0.0) -> Any:
        """The answer of the request's unary RPC, by `gateway.upstream.methods`. Raises Failure.

        `spent_s` is what it has taken already.
        """
        method = self._methods.whole[type(request)]
        with self._asking(method, request, caller, spent_s), self._span(method.name) as outcome:
            timeout_s = _timeout(method, caller, spent_s)
            metadata = self._metadata(request, caller, affinity, timeout_s)
            call = method.begin(request, timeout=timeout_s, metadata=metadata)
            async with _ending(call, outcome):
                answer = await call
                note_rate_limits(await call.initial_metadata())
                return answer

    @contextlib.asynccontextmanager
    async def stream(
        self, request: Message, caller: Caller, affinity: str = "", *, spent_s: float = 0.0
    ) -> AsyncIterator[AsyncIterator[Message]]:
        """The events of the request's streaming RPC. Reading them raises what leaving the block turns into Failure."""
        method = self._methods.stream[type(request)]
        with self._asking(method, request, caller, spent_s) as asked, self._span(method.name) as outcome:
            timeout_s = _timeout(method, caller, spent_s)
            metadata = self._metadata(request, caller, affinity, timeout_s)
            call = method.begin(request, timeout=timeout_s, metadata=metadata)
            async with _ending(call, outcome):
                if metadata := await call.initial_metadata():  # it comes with the first event; a refusal has none
                    asked.begin()
                    note_rate_limits(metadata)
                yield aiter(call)

    async def list_models(self, caller: Caller) -> list[model_pb2.Model]:
        """All models. Raises Failure."""
        return list((await self.call(model_pb2.ListModelsRequest(), caller)).models)

    async def get_model(self, name: str, caller: Caller) -> model_pb2.Model:
        """One model. Raises Failure."""
        answer: model_pb2.GetModelResponse = await self.call(model_pb2.GetModelRequest(model=name), caller)
        return answer.model

    async def get_load(self, caller: Caller) -> load_pb2.GetLoadResponse:
        """How busy the service is. Raises Failure."""
        answer: load_pb2.GetLoadResponse = await self.call(load_pb2.GetLoadRequest(), caller)
        return answer

    async def list_endpoints(self, caller: Caller) -> list[endpoint_pb2.Endpoint]:
        """All endpoints, each model's own among them. Raises Failure."""
        return list((await self.call(endpoint_pb2.ListEndpointsRequest(), caller)).endpoints)

    async def get_endpoint(self, name: str, caller: Caller) -> endpoint_pb2.Endpoint:
        """One endpoint. Raises Failure."""
        answer: endpoint_pb2.GetEndpointResponse = await self.call(endpoint_pb2.GetEndpointRequest(name=name), caller)
        return answer.endpoint

    async def delete_endpoint(self, name: str, caller: Caller, version: int | None = None) -> None:
        """Remove an endpoint, if one is given only in that version. Raises Failure."""
        await self.call(endpoint_pb2.DeleteEndpointRequest(name=name, config_version=version), caller)

    async def unready_reason(self) -> str | None:
        """Why the service can't serve now; None if it can. Makes no trace."""
        try:
            answer = await self._health.Check(health_pb2.HealthCheckRequest(), timeout=self._settings.lookup_deadline_s)
        except grpc.aio.AioRpcError as error:
            return to_failure(error).text
        if answer.status == health_pb2.HealthCheckResponse.SERVING:
            return None
        status: str = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
        return f"the service reports {status}"

    def _metadata(self, request: Message, caller: Caller, affinity: str, timeout_s: float) -> list[tuple[str, str]]:
        metadata = [("x-request-id", caller.request_id), *self._telemetry.inject().items()]
        if caller.authorization is not None:
            # No key has a backslash: one that metadata can't hold arrives as a wrong one, not as none.
            plain = caller.authorization.encode("unicode_escape").decode()
            metadata.append(("authorization", plain[:_MAX_CREDENTIAL_LENGTH]))
        if caller.scope:
            metadata.append(("x-sluice-scope", caller.scope))
        if caller.wants_cost:
            metadata.append(ASKING)
        if timeout_s.is_integer():  # others are rounded on their way, these at most up, by a second
            metadata.append(("x-sluice-timeout", f"{timeout_s:.0f}S"))
        if self._settings.needs_keys:
            metadata.append(("x-sluice-auth", "required"))
        if model := getattr(request, "model", ""):
            metadata.append(("x-sluice-model", quote(model[:_MAX_ROUTING_LENGTH], safe="")))
        if key := affinity_key(request, caller.authorization, affinity):
            metadata.append(("x-sluice-affinity", key))
        return metadata

    def _asking(
        self, method: Method, request: Any, caller: Caller, spent_s: float
    ) -> contextlib.AbstractContextManager[Asked]:
        """Around a call that may be refused for want of room. What was let in once, and broke, is asked for again."""
        if not method.needs_room or spent_s:
            return contextlib.nullcontext(Asked(lambda: None))
        credential = (caller.authorization or "")[:_MAX_CREDENTIAL_LENGTH]
        return self._pushback.asking((credential, request.model[:_MAX_ROUTING_LENGTH]))

    @contextlib.contextmanager
    def _span(self, method: str) -> Iterator[_Outcome]:
        """The call's client span, active within, and its duration."""
        attributes = {
            RPC_SYSTEM_NAME: "grpc",
            RPC_METHOD: method,
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
                attributes[RPC_STATUS_CODE] = outcome.code.name
                if outcome.code is not grpc.StatusCode.OK:
                    attributes[ERROR_TYPE] = outcome.code.name
                    span.set_status(trace.StatusCode.ERROR)
                span.set_attributes(attributes)
                self._telemetry.call_duration.record(time.perf_counter() - begun, attributes)


def _timeout(method: Method, caller: Caller, spent_s: float) -> float:
    """What a call may take, in seconds."""
    deadline_s = method.deadline_s if caller.timeout_s is None else min(method.deadline_s, caller.timeout_s)
    return max(0.0, deadline_s - spent_s)


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
            note_cost(await call.trailing_metadata())
    except grpc.aio.AioRpcError as error:
        outcome.code = error.code()
        note_rate_limits(error.trailing_metadata())
        note_cost(error.trailing_metadata())
        raise to_failure(error) from None
    finally:
        call.cancel()
