"""The routes of models: in the OpenAI style, and for Anthropic's clients also in Anthropic's style, under /v1."""

from __future__ import annotations

from typing import Final

from gateway.dialects.anthropic.answer import AnthropicError, ModelInfoAnswer, ModelPageAnswer
from gateway.dialects.anthropic.error import AnthropicErrors
from gateway.dialects.anthropic.header import VERSION, response_headers
from gateway.dialects.anthropic.model import to_model as to_model_info
from gateway.dialects.anthropic.model import to_model_page
from gateway.dialects.openai.answer import ErrorAnswer, ModelAnswer, ModelsAnswer
from gateway.dialects.openai.error import OpenAIErrors
from gateway.dialects.openai.model import to_model, to_model_list
from gateway.dialects.seam.http_request import HttpRequest
from gateway.routes.examples.example import MODEL_NAME
from gateway.routes.handling.by_header import ByHeader, OtherDialect
from gateway.routes.handling.handler import Answer, Lookup
from gateway.routes.surface.operation import Operation, Parameter
from gateway.routes.surface.surface import Surface
from gateway.routes.upstream.upstream import Upstream
from gateway.upstream.caller import Caller

_VERSION: Final = Parameter(VERSION, "header", "Whose clients send it get Anthropic's form of answers.", "2023-06-01")
_COUNT: Final = {"type": "integer", "minimum": 1, "maximum": 1000}
_PAGE: Final = (
    _VERSION,
    Parameter("limit", "query", "How many models, in Anthropic's form.", "20", schema=_COUNT),
    Parameter("after_id", "query", "The model before the page, in Anthropic's form.", MODEL_NAME.example),
    Parameter("before_id", "query", "The model after the page, in Anthropic's form.", MODEL_NAME.example),
)


async def _list_models(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:  # noqa: ARG001  a lookup's signature
    return to_model_list(await upstream.client.list_models(caller))


async def _get_model(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:
    return to_model(await upstream.client.get_model(http_request.path["model"], caller))


async def _page_models(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:
    return to_model_page(await upstream.client.list_models(caller), http_request.query)


async def _get_model_info(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:
    return to_model_info(await upstream.client.get_model(http_request.path["model"], caller))


def _by_header(default: Answer, other: Answer, answer: type) -> ByHeader:
    """Return a lookup whose dialect, OpenAI's or Anthropic's, is selected by a header."""
    anthropic = OtherDialect(
        VERSION, Lookup(other), answer, AnthropicError, AnthropicErrors().error_response, response_headers
    )
    return ByHeader(Lookup(default), anthropic)


def _of_azure(base: str) -> tuple[Operation, ...]:
    """Return the operations of models below a path of Azure OpenAI."""
    return (
        Operation("GET", f"{base}/models", "Lists the models.", Lookup(_list_models), answer=ModelsAnswer),
        Operation("GET", f"{base}/models/{{model:path}}", "Describes a model.", Lookup(_get_model), answer=ModelAnswer,
                  parameters=[MODEL_NAME]),
    )  # fmt: skip


MODELS: Final = Surface(
    tag="Models",
    error=ErrorAnswer,
    error_response=OpenAIErrors().error_response,
    prefixes=(),
    operations=(
        Operation("GET", "/v1/models", "Lists the models.", _by_header(_list_models, _page_models, ModelPageAnswer),
                  answer=ModelsAnswer, parameters=_PAGE),
        Operation("GET", "/v1/models/{model:path}", "Describes a model.",
                  _by_header(_get_model, _get_model_info, ModelInfoAnswer), answer=ModelAnswer,
                  parameters=[MODEL_NAME, _VERSION]),
        *_of_azure("/openai"),
        *_of_azure("/openai/v1"),
    ),
)  # fmt: skip
