"""What answers an operation: by generating, by a function, or by a change of an endpoint.

Handlers are declared without a service; `endpoint` makes the ASGI application that answers over one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias

from google.protobuf.message import Message
from starlette.types import ASGIApp

from gateway.aside import aside
from gateway.client import Caller
from gateway.config import Settings
from gateway.dialects.seam.arrival import Arrival
from gateway.dialects.seam.failure import Failure
from gateway.dialects.seam.refusal import Refuse
from gateway.dialects.seam.translator import Translator
from gateway.resuming_client import ResumingClient
from gateway.routes.generation_endpoint import GenerationEndpoint
from gateway.routes.lookup_endpoint import LookupEndpoint
from gateway.routes.prepared_client import PreparedClient
from gateway.routes.upstream import Upstream

Prepare: TypeAlias = Callable[[Upstream, Any, Caller], Awaitable[None]]
Answer: TypeAlias = Callable[[Upstream, Arrival, Caller], Awaitable[bytes]]


class Parsed(Protocol):
    """What came of a body: the contract's request, and the way back to the caller's names of its fields."""

    @property
    def request(self) -> Message: ...

    @property
    def caller_name(self) -> Callable[[str], str]: ...


@dataclass(frozen=True, slots=True)
class Generation:
    """A request for which something is generated. `prepare` may change it first, or refuse it by raising Failure."""

    translator: Callable[[], Translator]
    prepare: Prepare | None = None

    def parse(self, arrival: Arrival) -> Parsed:
        """Read a request. Raises Failure."""
        return self.translator().parse(arrival)

    def endpoint(self, upstream: Upstream, refuse: Refuse, settings: Settings) -> ASGIApp:  # noqa: ARG002
        """The application. Errors are told by the translator, which may know more of the request."""
        client = ResumingClient(upstream.client, settings.resume_timeout_s)
        if self.prepare is None:
            return GenerationEndpoint(self.translator, client, settings)
        return GenerationEndpoint(self.translator, PreparedClient(client, partial(self.prepare, upstream)), settings)


@dataclass(frozen=True, slots=True)
class Lookup:
    """A request without a body. `answer` gives the JSON of status 200, or raises Failure."""

    answer: Answer

    def endpoint(self, upstream: Upstream, refuse: Refuse, settings: Settings) -> ASGIApp:
        """The application."""
        return LookupEndpoint(partial(self.answer, upstream), refuse, settings)


@dataclass(frozen=True, slots=True)
class Change:
    """A request whose body says what to call: `tell` gives the JSON of what the service answers."""

    parse: Callable[[Arrival], Parsed]
    tell: Callable[[Any], bytes]

    def endpoint(self, upstream: Upstream, refuse: Refuse, settings: Settings) -> ASGIApp:
        """The application."""

        async def answer(arrival: Arrival, caller: Caller) -> bytes:
            parsed = await aside(len(arrival.body), partial(self.parse, arrival))
            try:
                return self.tell(await upstream.client.call(parsed.request, caller))
            except Failure as failure:
                raise failure.renamed(parsed.caller_name) from None

        return LookupEndpoint(answer, refuse, settings)
