"""The routes of MindIE and Triton, and KServe's metadata routes, under /v2."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from sluice.inference import inference_pb2, model_statistics_pb2
from sluice.v1.model_pb2 import Model

from gateway.dialects.mindie.answer import (
    GenerationAnswer,
    GenerationChunk,
    IndexedModel,
    InferAnswer,
    Liveness,
    ModelConfig,
    ModelMetadata,
    ModelReadiness,
    ModelStatistics,
    Readiness,
    ServerMetadata,
    TritonError,
)
from gateway.dialects.mindie.body import MINDIE_DEFAULTS, GenerateBody
from gateway.dialects.mindie.error import MindieErrors
from gateway.dialects.mindie.generate import MindieTranslator
from gateway.dialects.mindie.infer import InferTranslator
from gateway.dialects.mindie.infer_body import InferBody
from gateway.dialects.mindie.model import (
    LIVE,
    READY,
    check_version,
    to_model_config,
    to_model_metadata,
    to_model_readiness,
    to_model_statistics,
    to_repository_index,
    to_server_metadata,
)
from gateway.dialects.mindie.repository import IndexBody, parse_index
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest
from gateway.routes.examples.example import MODEL_NAME
from gateway.routes.handling.handler import Change, Generation, Lookup
from gateway.routes.surface.operation import Body, Operation, Parameter
from gateway.routes.surface.surface import Surface
from gateway.routes.upstream.upstream import Upstream
from gateway.routes.upstream.vocabulary_limit import check_vocabulary
from gateway.upstream.caller import Caller
from process.distribution import installed_version

_MODEL: Final = "/v2/models/{model:path}"  # a model's name may have slashes
# The longer path is first, because the shorter one would match it as part of a name.
_FORMS: Final = (f"{_MODEL}/versions/{{version}}", _MODEL)
_VERSION: Final = Parameter("version", "path", "The model's version.", "1")
_PROMPT: Final = {"text_input": "One, two,", "parameters": {"max_new_tokens": 4}}
_BODY: Final = Body(GenerateBody, _PROMPT, GenerationAnswer, chunk=GenerationChunk)
_TENSORS: Final = {
    "inputs": [{"name": "text_input", "datatype": "BYTES", "shape": [1], "data": ["One, two,"]}],
    "parameters": {"max_tokens": 4},
}
_INDEX_BODY: Final = Body(IndexBody, {"ready": True}, list[IndexedModel], is_optional=True)
_INFER_BODY: Final = Body(InferBody, _TENSORS, InferAnswer)
_METADATA: Final = to_server_metadata(installed_version())


async def _live(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:  # noqa: ARG001  a lookup's signature
    return LIVE


async def _ready(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:  # noqa: ARG001  a lookup's signature
    reason = await upstream.client.unready_reason()
    if reason is not None:
        raise Failure(Reason.UNAVAILABLE, reason, retry_after_s=1)
    return READY


async def _server(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:  # noqa: ARG001  a lookup's signature
    return _METADATA


def _of_model(describe: Callable[[Model], bytes]) -> Lookup:
    """Return a lookup that describes the model in the path."""

    async def answer(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:
        model = await upstream.client.get_model(http_request.path["model"], caller)
        check_version(model, http_request.path.get("version"))
        return describe(model)

    return Lookup(answer)


def _described(
    ask: type[
        inference_pb2.ModelMetadataRequest
        | inference_pb2.ModelConfigRequest
        | model_statistics_pb2.ModelStatisticsRequest
    ],
    render: Callable[[Any], bytes],
) -> Lookup:
    """Return a lookup that renders the service's description of the model in the path."""

    async def answer(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:
        path = http_request.path
        request = ask(name=path["model"], version=path.get("version", ""))
        return render(await upstream.client.call(request, caller))

    return Lookup(answer)


def _infer(form: str) -> Operation:
    """Return the operation that runs a model by tensors."""
    summary = "Runs a model by tensors: generates a text, embeds or scores texts."
    handler = Generation(InferTranslator)
    return Operation(
        "POST", f"{form}/infer", summary, handler, [_INFER_BODY], parameters=_parameters(form), is_closed=True
    )


def _parameters(form: str) -> list[Parameter]:
    return [MODEL_NAME, _VERSION] if "{version}" in form else [MODEL_NAME]


def _generate(form: str, *, stream: bool) -> Operation:
    """Return the operation that generates a text, streamed or whole."""
    path, summary = ("generate_stream", "Generates a text, streamed.") if stream else ("generate", "Generates a text.")
    handler = Generation(partial(MindieTranslator, stream=stream), check_vocabulary, MINDIE_DEFAULTS)
    return Operation(
        "POST", f"{form}/{path}", summary, handler, [_BODY], streams=stream, parameters=_parameters(form),
        is_closed=True,
    )  # fmt: skip


def _get(route: str, summary: str, handler: Lookup, answer: type) -> Operation:
    """Return an operation that only reads."""
    parameters = _parameters(route) if "{model" in route else []
    return Operation("GET", route, summary, handler, answer=answer, parameters=parameters)


_CONFIG: Final = _described(inference_pb2.ModelConfigRequest, to_model_config)
_STATISTICS: Final = _described(model_statistics_pb2.ModelStatisticsRequest, to_model_statistics)
_MODEL_METADATA: Final = _described(inference_pb2.ModelMetadataRequest, to_model_metadata)

MINDIE: Final = Surface(
    tag="MindIE and Triton",
    error=TritonError,
    error_response=MindieErrors().error_response,
    prefixes=("/v2",),
    operations=(
        _get("/v2", "Describes the server.", Lookup(_server), ServerMetadata),
        _get("/v2/health/live", "Checks that the server is alive.", Lookup(_live), Liveness),
        _get("/v2/health/ready", "Checks that the server is ready.", Lookup(_ready), Readiness),
        Operation(
            "POST", "/v2/repository/index", "Lists the models.", Change(parse_index, to_repository_index), [_INDEX_BODY]
        ),
        *map(_infer, _FORMS),
        *(_generate(form, stream=False) for form in _FORMS),
        *(_generate(form, stream=True) for form in _FORMS),
        *(
            _get(f"{form}/ready", "Checks that a model is ready.", _of_model(to_model_readiness), ModelReadiness)
            for form in _FORMS
        ),
        *(
            _get(f"{form}/config", "Describes a model as Triton's configuration.", _CONFIG, ModelConfig)
            for form in _FORMS
        ),
        *(
            _get(f"{form}/stats", "Counts the inferences of a model, and their times.", _STATISTICS, ModelStatistics)
            for form in _FORMS
        ),
        *(_get(form, "Describes a model by its tensors.", _MODEL_METADATA, ModelMetadata) for form in _FORMS),
    ),
)
