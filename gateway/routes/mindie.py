"""The routes of MindIE and Triton, and KServe's about the server and its models."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Final

from sluice.v1.model_pb2 import Model
from starlette.routing import Route
from starlette.types import ASGIApp

from gateway.client import Caller, ServiceClient
from gateway.config import Settings
from gateway.dialects.mindie.error import MindieErrors
from gateway.dialects.mindie.generate import MindieTranslator
from gateway.dialects.mindie.model import (
    LIVE,
    READY,
    check_version,
    to_model_metadata,
    to_model_readiness,
    to_server_metadata,
)
from gateway.dialects.seam.arrival import Arrival
from gateway.dialects.seam.failure import Failure, Reason
from gateway.routes.generation_endpoint import GenerationEndpoint
from gateway.routes.lookup_endpoint import Lookup, LookupEndpoint
from gateway.routes.prepared_client import PreparedClient
from gateway.routes.surface import ClosedRoute, Surface
from gateway.routes.vocabulary_limit import check_vocabulary

_MODEL: Final = "/v2/models/{model:path}"  # a model's name may have slashes
_FORMS: Final = (f"{_MODEL}/versions/{{version}}", _MODEL)  # the longer first: the shorter would take it for a name


def mindie_surface(client: ServiceClient, settings: Settings) -> Surface:
    """Everything under /v2."""
    refuse = MindieErrors().refuse
    metadata = to_server_metadata(version("sluice"))

    async def live(arrival: Arrival, caller: Caller) -> bytes:  # noqa: ARG001  a lookup's signature
        return LIVE

    async def ready(arrival: Arrival, caller: Caller) -> bytes:  # noqa: ARG001  a lookup's signature
        reason = await client.unready_reason()
        if reason is not None:
            raise Failure(503, Reason.UNAVAILABLE, reason, retry_after_s=1)
        return READY

    async def server(arrival: Arrival, caller: Caller) -> bytes:  # noqa: ARG001  a lookup's signature
        return metadata

    def of_model(describe: Callable[[Model], bytes]) -> Lookup:
        async def answer(arrival: Arrival, caller: Caller) -> bytes:
            model = await client.get_model(arrival.path["model"], caller)
            check_version(model, arrival.path.get("version"))
            return describe(model)

        return answer

    def get(path: str, answer: Lookup) -> Route:
        return Route(path, LookupEndpoint(answer, refuse, settings), methods=["GET"])

    def post(path: str, endpoint: ASGIApp) -> Route:
        return ClosedRoute(path, endpoint, methods=["POST"])

    checked = PreparedClient(client, partial(check_vocabulary, client))
    whole, stream = (
        GenerationEndpoint(partial(MindieTranslator, stream=each), checked, settings) for each in (False, True)
    )
    routes = [get("/v2", server), get("/v2/health/live", live), get("/v2/health/ready", ready)]
    routes += [post(f"{form}/generate", whole) for form in _FORMS]
    routes += [post(f"{form}/generate_stream", stream) for form in _FORMS]
    routes += [get(f"{form}/ready", of_model(to_model_readiness)) for form in _FORMS]
    routes += [get(form, of_model(to_model_metadata)) for form in _FORMS]
    return Surface(routes, ("/v2",), refuse)
