"""The gateway's client of the service: one channel, and the calls on it.

Each call has metadata, a deadline and a client span; leaving a call before its end cancels it. Raise Failure, never
gRPC's own errors. Used on the event loop that opened it only.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import grpc
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2, health_pb2_grpc
from opentelemetry import trace
from sluice.v1 import endpoint_pb2, load_pb2, model_pb2, quota_pb2, receipt_pb2

from gateway.dialects.seam.failure import Failure
from gateway.http.cost import REQUEST_HEADER, set_cost
from gateway.http.local_request import is_local
from gateway.http.rate_limits import set_rate_limits
from gateway.settings.config import Settings
from gateway.telemetry import attributes as names
from gateway.telemetry.telemetry import Telemetry
from gateway.upstream.affinity import affinity_key
from gateway.upstream.caller import Caller
from gateway.upstream.channel import open_channel
from gateway.upstream.errors import to_failure
from gateway.upstream.methods import Method, MethodTable
from gateway.upstream.pushback import GuardedCall, Pushback
from gateway.upstream.upload import Upload
from process.telemetry.attributes import ERROR_TYPE, RPC_METHOD, RPC_STATUS_CODE, RPC_SYSTEM_NAME

_MAX_ROUTING_LENGTH = 256  # the maximum length of a model's name; the service rejects longer ones
_MAX_CREDENTIAL_LENGTH = 6_000  # metadata is limited to 8 KiB; the service rejects truncated credentials


class ServiceClient:
    """A client of one service."""

    def __init__(self, channel: grpc.aio.Channel, settings: Settings, telemetry: Telemetry) -> None:
        self._settings = settings
        self._telemetry = telemetry
        self._pushback = Pushback()
        self.use(channel)

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(cls, settings: Settings, telemetry: Telemetry) -> AsyncIterator[ServiceClient]:
        """Open a client with its own channel. Raise TlsError."""
        async with open_channel(settings) as channel:
            client = cls(channel.current, settings, telemetry)
            channel.on_change = client.use
            yield client

    def use(self, channel: grpc.aio.Channel) -> None:
        """Use this channel for all further calls."""
        self._methods = MethodTable(channel, self._settings)
        self._health: Any = health_pb2_grpc.HealthStub(channel)  # it ships no types

    async def call(self, request: Message, caller: Caller, affinity: str = "", *, spent_s: float = 0.0) -> Any:
        """Call the unary RPC of the request's type and return its response. Raise Failure.

        `spent_s` is the time that earlier attempts have taken, in seconds.
        """
        method = self._methods.whole[type(request)]
        with self._guard(method, request, caller, spent_s), self._span(method.name) as outcome:
            timeout_s = _timeout(method, caller, spent_s)
            metadata = self._metadata(request, caller, affinity, timeout_s)
            call = method.begin(request, timeout=timeout_s, metadata=metadata)
            async with _ending(call, outcome):
                answer = await call
                set_rate_limits(await call.initial_metadata())
                return answer

    @contextlib.asynccontextmanager
    async def stream(
        self, request: Message, caller: Caller, affinity: str = "", *, spent_s: float = 0.0
    ) -> AsyncIterator[AsyncIterator[Message]]:
        """Open the streaming RPC of the request's type. Errors while reading become Failure on leaving the block."""
        method = self._methods.stream[type(request)]
        with self._guard(method, request, caller, spent_s) as guarded, self._span(method.name) as outcome:
            timeout_s = _timeout(method, caller, spent_s)
            metadata = self._metadata(request, caller, affinity, timeout_s)
            call = method.begin(request, timeout=timeout_s, metadata=metadata)
            async with _ending(call, outcome):
                if metadata := await call.initial_metadata():  # sent with the first event; rejected calls have none
                    guarded.admit()
                    set_rate_limits(metadata)
                yield aiter(call)

    @contextlib.asynccontextmanager
    async def upload(self, kind: type[Message], caller: Caller) -> AsyncIterator[Upload]:
        """Open the RPC with streamed requests of that type. Errors of the call become Failure on leaving the block."""
        method = self._methods.upload[kind]
        with self._span(method.name) as outcome:
            timeout_s = _timeout(method, caller, 0.0)
            call = method.begin(timeout=timeout_s, metadata=self._metadata(kind(), caller, "", timeout_s))
            async with _ending(call, outcome):
                yield Upload(call)

    async def list_models(self, caller: Caller) -> list[model_pb2.Model]:
        """Return all models. Raise Failure."""
        return list((await self.call(model_pb2.ListModelsRequest(), caller)).models)

    async def require_key(self, caller: Caller) -> None:
        """Raise Failure (401) if the service rejects the caller's credential; if it is unavailable, do nothing."""
        try:
            await self.list_models(caller)
        except Failure as failure:
            if failure.status == HTTPStatus.UNAUTHORIZED:
                raise

    async def get_model(self, name: str, caller: Caller) -> model_pb2.Model:
        """Return one model. Raise Failure."""
        answer: model_pb2.GetModelResponse = await self.call(model_pb2.GetModelRequest(model=name), caller)
        return answer.model

    async def get_load(self, caller: Caller) -> load_pb2.GetLoadResponse:
        """Return the load of the service. Raise Failure."""
        answer: load_pb2.GetLoadResponse = await self.call(load_pb2.GetLoadRequest(), caller)
        return answer

    async def get_usage(self, caller: Caller) -> quota_pb2.GetUsageResponse:
        """Return the usage and the limits of the caller's key. Raise Failure."""
        answer: quota_pb2.GetUsageResponse = await self.call(quota_pb2.GetUsageRequest(), caller)
        return answer

    async def list_receipt_keys(self, caller: Caller) -> receipt_pb2.ListReceiptKeysResponse:
        """Return the public keys of receipts. Raise Failure."""
        answer: receipt_pb2.ListReceiptKeysResponse = await self.call(receipt_pb2.ListReceiptKeysRequest(), caller)
        return answer

    async def list_endpoints(self, caller: Caller) -> list[endpoint_pb2.Endpoint]:
        """Return all endpoints, including those of models. Raise Failure."""
        return list((await self.call(endpoint_pb2.ListEndpointsRequest(), caller)).endpoints)

    async def get_endpoint(self, name: str, caller: Caller) -> endpoint_pb2.Endpoint:
        """Return one endpoint. Raise Failure."""
        answer: endpoint_pb2.GetEndpointResponse = await self.call(endpoint_pb2.GetEndpointRequest(name=name), caller)
        return answer.endpoint

    async def delete_endpoint(self, name: str, caller: Caller, version: int | None = None) -> None:
        """Delete an endpoint; with `version`, only if it has that version. Raise Failure."""
        await self.call(endpoint_pb2.DeleteEndpointRequest(name=name, config_version=version), caller)

    async def unready_reason(self) -> str | None:
        """Return the reason for which the service is not ready; None if it is. Not traced."""
        try:
            answer = await self._health.Check(health_pb2.HealthCheckRequest(), timeout=self._settings.lookup_deadline_s)
        except grpc.aio.AioRpcError as error:
            return to_failure(error).text
        if answer.status == health_pb2.HealthCheckResponse.SERVING:
            return None
        status: str = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
        return f"the service reports {status}"

    def _metadata(self, request: Message, caller: Caller, affinity: str, timeout_s: float) -> list[tuple[str, str]]:
        """Return the metadata of a call: request id, trace context, credential, timeout and routing headers."""
        metadata = [("x-request-id", caller.request_id), *self._telemetry.inject().items()]
        if caller.authorization is not None:
            # Keys contain no backslash: a key that metadata can't transport is invalid at the service, not missing.
            plain = caller.authorization.encode("unicode_escape").decode()
            metadata.append(("authorization", plain[:_MAX_CREDENTIAL_LENGTH]))
        if caller.scope:
            metadata.append(("x-sluice-scope", caller.scope))
        if caller.wants_cost:
            metadata.append(REQUEST_HEADER)
        if timeout_s.is_integer():  # gRPC rounds timeouts up to whole seconds at most
            metadata.append(("x-sluice-timeout", f"{timeout_s:.0f}S"))
        if self._settings.needs_keys:
            metadata.append(("x-sluice-auth", "required"))
        elif self._settings.is_private and not is_local(caller.host, caller.origin, self._settings.allowed_origins):
            metadata.append(("x-sluice-auth", "foreign"))
        if model := _model_name(request):
            metadata.append(("x-sluice-model", quote(model[:_MAX_ROUTING_LENGTH], safe="")))
        if key := affinity_key(request, caller.authorization, affinity):
            metadata.append(("x-sluice-affinity", key))
        return metadata

    def _guard(
        self, method: Method, request: Any, caller: Caller, spent_s: float
    ) -> contextlib.AbstractContextManager[GuardedCall]:
        """Guard a call that the service may reject for lack of capacity, unless it retries an admitted call."""
        if not method.needs_capacity or spent_s:
            return contextlib.nullcontext(GuardedCall(lambda: None))
        credential = (caller.authorization or "")[:_MAX_CREDENTIAL_LENGTH]
        return self._pushback.guard((credential, _model_name(request)[:_MAX_ROUTING_LENGTH]))

    @contextlib.contextmanager
    def _span(self, method: str) -> Iterator[_Outcome]:
        """Open the client span of a call, and record its duration."""
        attributes = {
            RPC_SYSTEM_NAME: "grpc",
            RPC_METHOD: method,
            names.SERVER_ADDRESS: self._settings.target,
        }
        began = time.perf_counter()
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
                self._telemetry.call_duration.record(time.perf_counter() - began, attributes)


def _model_name(request: Any) -> str:
    """Return the name of the model that a request names; empty if it names none."""
    fields = ("model_name", "name") if request.DESCRIPTOR.file.package == "inference" else ("model",)
    name: str = next(filter(None, (getattr(request, field, "") for field in fields)), "")
    return name


def _timeout(method: Method, caller: Caller, spent_s: float) -> float:
    """Return the timeout of a call in seconds."""
    deadline_s = method.deadline_s if caller.timeout_s is None else min(method.deadline_s, caller.timeout_s)
    return max(0.0, deadline_s - spent_s)


@dataclass(slots=True)
class _Outcome:
    """The status of a call, set when it ends."""

    code: grpc.StatusCode = grpc.StatusCode.CANCELLED


@contextlib.asynccontextmanager
async def _ending(call: grpc.aio.Call, outcome: _Outcome) -> AsyncIterator[None]:
    """Record the status of a call, and cancel it if it has not ended; an abandoned call would continue to run."""
    try:
        yield
        if call.done():
            outcome.code = await call.code()
            set_cost(await call.trailing_metadata())
    except grpc.aio.AioRpcError as error:
        outcome.code = error.code()
        set_rate_limits(error.trailing_metadata())
        set_cost(error.trailing_metadata())
        raise to_failure(error) from None
    finally:
        call.cancel()
