"""The handlers of operations: how an HTTP request becomes RPCs, and their replies an HTTP response.

Handlers are declared without a service; `endpoint` creates the ASGI application for a service.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

from google.protobuf.message import Message
from starlette.datastructures import QueryParams
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.dialects.seam.error_response import ToErrorResponse
from gateway.dialects.seam.failure import Failure
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.sampling_defaults import MODELS_OWN, SamplingDefaults
from gateway.dialects.seam.translator import Translator
from gateway.http.offload import offload
from gateway.routes.handling.authentication_first import authentication_first
from gateway.routes.handling.generation_endpoint import GenerationEndpoint
from gateway.routes.handling.lookup_endpoint import LookupEndpoint
from gateway.routes.handling.prepared_client import PreparedClient
from gateway.routes.upstream.bodies import NoBody
from gateway.routes.upstream.upstream import Upstream
from gateway.settings.config import Settings
from gateway.upstream.caller import Caller
from gateway.upstream.resuming_client import ResumingClient

Prepare: TypeAlias = Callable[[Upstream, Any, Caller], Awaitable[None]]
Answer: TypeAlias = Callable[[Upstream, HttpRequest, Caller], Awaitable[bytes]]


class Parsed(Protocol):
    """A parsed body: the contract's request, and the mapping to the caller's field names."""

    @property
    def request(self) -> Message: ...

    @property
    def caller_name(self) -> Callable[[str], str]: ...


ParsedT = TypeVar("ParsedT", bound=Parsed)


@dataclass(frozen=True, slots=True)
class Generation:
    """A request that runs a model. `prepare` may change it first, or reject it by raising Failure.

    `documented` are the sampling defaults that the dialect's API documents.
    """

    translator: Callable[[], Translator]
    prepare: Prepare | None = None
    documented: SamplingDefaults = field(default_factory=lambda: MODELS_OWN)

    def parse(self, http_request: HttpRequest) -> Parsed:
        """Parse a request. Raise Failure."""
        return self.translator().parse(http_request)

    def endpoint(self, upstream: Upstream, error_response: ToErrorResponse, settings: Settings) -> ASGIApp:  # noqa: ARG002
        """Return the ASGI application. The translator creates its errors, since it may know more of the request."""
        resuming = ResumingClient(upstream.client, settings.resume_timeout_s)
        client = PreparedClient(resuming, partial(self._prepare, upstream))
        defaults = self.documented if settings.sampling_defaults == "dialect" else MODELS_OWN
        return GenerationEndpoint(
            self.translator, client, upstream.bodies, settings, authentication_first(upstream.client), defaults
        )

    async def _prepare(self, upstream: Upstream, request: Any, caller: Caller) -> None:
        if self.prepare is not None:
            await self.prepare(upstream, request, caller)
        await upstream.choice.complete(request, caller)


@dataclass(frozen=True, slots=True)
class Lookup:
    """A request without a body. `answer` returns the JSON of status 200, or raises Failure."""

    answer: Answer

    def endpoint(self, upstream: Upstream, error_response: ToErrorResponse, settings: Settings) -> ASGIApp:  # noqa: ARG002
        """Return the ASGI application."""
        return LookupEndpoint(partial(self.answer, upstream), error_response, upstream.bodies)


@dataclass(frozen=True, slots=True)
class Action:
    """A Lookup whose body is ignored, such as a POST that cancels what its path names."""

    answer: Answer

    def endpoint(self, upstream: Upstream, error_response: ToErrorResponse, settings: Settings) -> ASGIApp:  # noqa: ARG002
        """Return the ASGI application."""
        return LookupEndpoint(partial(self.answer, upstream), error_response, NoBody())


@dataclass(frozen=True, slots=True)
class LookupOrStream:
    """A Lookup whose answer is streamed if `wants_stream` returns True for the query parameters."""

    lookup: Lookup
    translator: Callable[[], Translator]
    wants_stream: Callable[[Mapping[str, str]], bool]

    def endpoint(self, upstream: Upstream, error_response: ToErrorResponse, settings: Settings) -> ASGIApp:
        """Return the ASGI application."""
        whole = self.lookup.endpoint(upstream, error_response, settings)
        resuming = ResumingClient(upstream.client, settings.resume_timeout_s)
        stream = GenerationEndpoint(self.translator, resuming, NoBody(), settings)

        async def choose(scope: Scope, receive: Receive, send: Send) -> None:
            is_stream = self.wants_stream(QueryParams(scope["query_string"]))
            await (stream if is_stream else whole)(scope, receive, send)

        return choose


@dataclass(frozen=True, slots=True)
class Change:
    """A request whose body becomes one RPC. `serialize` turns its reply into JSON."""

    parse: Callable[[HttpRequest], Parsed]
    serialize: Callable[[Any], bytes]

    def endpoint(self, upstream: Upstream, error_response: ToErrorResponse, settings: Settings) -> ASGIApp:  # noqa: ARG002
        """Return the ASGI application."""

        async def answer(http_request: HttpRequest, caller: Caller) -> bytes:
            _, reply = await _call(self.parse, upstream, http_request, caller)
            return await offload(reply.ByteSize(), partial(self.serialize, reply))

        return LookupEndpoint(answer, error_response, upstream.bodies, authentication_first(upstream.client))


@dataclass(frozen=True, slots=True)
class Command:
    """A request whose body becomes several RPCs. `answer` sends them and returns the JSON of status 200."""

    parse: Callable[[HttpRequest], Parsed]
    answer: Callable[[Upstream, Any, Caller], Awaitable[bytes]]

    def endpoint(self, upstream: Upstream, error_response: ToErrorResponse, settings: Settings) -> ASGIApp:  # noqa: ARG002
        """Return the ASGI application."""

        async def answer(http_request: HttpRequest, caller: Caller) -> bytes:
            try:
                parsed = self.parse(http_request)
            except Failure as failure:
                raise await authentication_first(upstream.client)(failure, caller) from None
            try:
                return await self.answer(upstream, parsed, caller)
            except Failure as failure:
                raise failure.renamed(parsed.caller_name) from None

        return LookupEndpoint(answer, error_response, upstream.bodies, authentication_first(upstream.client))


class SerializingParsed(Parsed, Protocol):
    """A parsed body that also determines how the reply is serialized."""

    def serialize(self, answer: Any) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Inquiry:
    """A request whose body becomes one RPC and also determines the JSON of the reply, which may be long."""

    parse: Callable[[HttpRequest], SerializingParsed]

    def endpoint(self, upstream: Upstream, error_response: ToErrorResponse, settings: Settings) -> ASGIApp:  # noqa: ARG002
        """Return the ASGI application."""

        async def answer(http_request: HttpRequest, caller: Caller) -> bytes:
            parsed, reply = await _call(self.parse, upstream, http_request, caller)
            return await offload(reply.ByteSize(), partial(parsed.serialize, reply))

        return LookupEndpoint(answer, error_response, upstream.bodies, authentication_first(upstream.client))


async def _call(
    parse: Callable[[HttpRequest], ParsedT], upstream: Upstream, http_request: HttpRequest, caller: Caller
) -> tuple[ParsedT, Any]:
    """Return the parsed body and the service's reply. Raise Failure with the client's field names."""
    try:
        parsed = await offload(len(http_request.body), partial(parse, http_request))
    except Failure as failure:
        raise await authentication_first(upstream.client)(failure, caller) from None
    try:
        await upstream.choice.complete(parsed.request, caller)
        return parsed, await upstream.client.call(parsed.request, caller)
    except Failure as failure:
        raise failure.renamed(parsed.caller_name) from None
