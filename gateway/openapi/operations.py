"""All operations of the API, each with a body that works.

Owns the list that the document is made of. A test holds it against the application's routes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from google.protobuf.message import Message

from gateway.dialects.azure.chat import AzureChatBody, AzureTranslator
from gateway.dialects.azure.embedding import AzureEmbeddingBody, AzureEmbeddingTranslator
from gateway.dialects.databricks.chat import DatabricksChatBody, DatabricksChatTranslator
from gateway.dialects.databricks.completion import DatabricksCompletionBody, DatabricksCompletionTranslator
from gateway.dialects.databricks.embedding import DatabricksEmbeddingBody, DatabricksEmbeddingTranslator
from gateway.dialects.databricks.endpoint_body import ConfigBody, EndpointBody
from gateway.dialects.databricks.invocation import InvocationTranslator
from gateway.dialects.databricks.response import DatabricksResponseTranslator
from gateway.dialects.mindie.body import GenerateBody
from gateway.dialects.mindie.generate import MindieTranslator
from gateway.dialects.openai.chat import ChatCompletionBody, OpenAITranslator
from gateway.dialects.openai.completion import OpenAICompletionBody, OpenAICompletionTranslator
from gateway.dialects.openai.deployment import (
    DeploymentChatBody,
    DeploymentChatTranslator,
    DeploymentCompletionBody,
    DeploymentCompletionTranslator,
    DeploymentEmbeddingBody,
    DeploymentEmbeddingTranslator,
)
from gateway.dialects.openai.embedding import OpenAIEmbeddingBody, OpenAIEmbeddingTranslator
from gateway.dialects.openai.response import OpenAIResponseTranslator
from gateway.dialects.openai_family.response_body import ResponseBody
from gateway.dialects.seam.arrival import Arrival
from gateway.dialects.seam.translator import Translator
from gateway.openapi import answers, operator_answers
from gateway.openapi.document import Body, Operation, Parameter

_MODEL: Final = "sluice-demo"
_EMBEDDER: Final = "all-minilm-l6-v2"
_MESSAGES: Final = {"messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 16}
_PROMPT: Final = {"prompt": "One, two,", "max_tokens": 4}
_INPUT: Final = {"input": "a cat"}
_GENERATE: Final = {"text_input": "One, two,", "parameters": {"max_new_tokens": 4}}
_RESPOND: Final = {"model": _MODEL, "input": "Hello!", "max_output_tokens": 16}
_ENTITIES: Final = [
    {"name": "a", "entity_name": _MODEL, "entity_version": "1"},
    {"name": "b", "entity_name": _MODEL, "entity_version": "1"},
]
_TRAFFIC: Final = {
    "routes": [
        {"served_model_name": "a", "traffic_percentage": 10},
        {"served_model_name": "b", "traffic_percentage": 90},
    ]
}
_CONFIG: Final = {"served_entities": _ENTITIES, "traffic_config": _TRAFFIC}
_NEW: Final = {"name": "ab-test", "config": _CONFIG}

_NAMED: Final = Parameter("model", "path", "A served model's name.", _MODEL)
_VERSION: Final = Parameter("version", "path", "The model's version.", "1")
_ENDPOINT: Final = Parameter("name", "path", "An endpoint's name: a served model's, or one made.", _MODEL)
_MADE: Final = Parameter("name", "path", "The name of an endpoint that was made.", "ab-test")
_AZURE: Final = (
    Parameter(
        "api-version",
        "query",
        "A date, or a date and -preview.",
        "2024-05-01-preview",
        required=True,
        schema={"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}(-preview)?$"},
    ),
    Parameter("azureml-model-deployment", "header", "The deployment to use, where there are several.", _MODEL),
)
_EXTRAS: Final = Parameter(
    "extra-parameters",
    "header",
    "What becomes of fields that the API doesn't name.",
    "error",
    schema={"type": "string", "enum": ["error", "ignore", "drop", "pass-through"]},
)


@dataclass(frozen=True, slots=True)
class _Change:
    """What came of a body that changes an endpoint."""

    request: Message
    caller_name: Callable[[str], str]


def _creation(arrival: Arrival) -> _Change:
    body = msgspec.json.decode(arrival.body, type=EndpointBody)
    return _Change(body.to_create(), body.caller_name)


def _update(arrival: Arrival) -> _Change:
    body = msgspec.json.decode(arrival.body, type=ConfigBody)
    return _Change(body.to_update(arrival.path["name"]), body.caller_name)


def _chat(kind: type[msgspec.Struct], translator: Callable[[], Translator], example: dict[str, Any]) -> Body:
    return Body(kind, example | _MESSAGES, translator().parse, answers.ChatAnswer)


def _completion(kind: type[msgspec.Struct], translator: Callable[[], Translator], example: dict[str, Any]) -> Body:
    return Body(kind, example | _PROMPT, translator().parse, answers.CompletionAnswer)


def _embedding(
    kind: type[msgspec.Struct], translator: Callable[[], Translator], example: dict[str, Any], **parameters: str
) -> Body:
    named = {name.replace("_", "-"): value for name, value in parameters.items()}
    return Body(kind, example | _INPUT, translator().parse, answers.EmbeddingsAnswer, named)


def _response(translator: Callable[[], Translator]) -> Body:
    return Body(ResponseBody, _RESPOND, translator().parse, answers.ResponseAnswer)


def _openai(method: str, path: str, summary: str, **more: Any) -> Operation:
    return Operation(method, f"/v1{path}", "OpenAI style", summary, answers.ErrorAnswer, **more)


def _deployment(path: str, summary: str, body: Body, *, streams: bool = False) -> Operation:
    return Operation(
        "POST", f"/openai/deployments/{{name}}{path}", "OpenAI style", summary, answers.ErrorAnswer, bodies=[body],
        parameters=[_ENDPOINT], streams=streams,
    )  # fmt: skip


def _databricks(method: str, path: str, summary: str, **more: Any) -> Operation:
    return Operation(method, path, "Databricks", summary, operator_answers.DatabricksError, **more)


def _azure(method: str, path: str, summary: str, **more: Any) -> Operation:
    parameters = [*_AZURE, *([_EXTRAS] if method == "POST" else [])]
    return Operation(
        method, path, "Azure AI model inference", summary, operator_answers.AzureError, parameters=parameters, **more
    )


def _triton(method: str, path: str, summary: str, **more: Any) -> Operation:
    parameters = [each for each in (_NAMED, _VERSION) if f"{{{each.name}}}" in path]
    return Operation(
        method, f"/v2{path}", "MindIE and Triton", summary, operator_answers.TritonError, parameters=parameters, **more
    )


def _generate(form: str, *, stream: bool) -> Operation:
    body = Body(GenerateBody, _GENERATE, MindieTranslator(stream=stream).parse, operator_answers.GenerationAnswer)
    path, summary = ("generate_stream", "Streams a text.") if stream else ("generate", "Generates a text.")
    return _triton("POST", f"{form}/{path}", summary, bodies=[body], streams=stream)


_BY_MODEL: Final = {"model": _MODEL}
_BY_EMBEDDER: Final = {"model": _EMBEDDER}
_FORMS: Final = ("/models/{model}", "/models/{model}/versions/{version}")
_API: Final = "/api/2.0/serving-endpoints"
_CHANGES: Final = operator_answers.EndpointAnswer

OPERATIONS: Final = (
    _openai("POST", "/chat/completions", "Answers a conversation.", streams=True,
            bodies=[_chat(ChatCompletionBody, OpenAITranslator, _BY_MODEL)]),
    _openai("POST", "/completions", "Continues prompts.", streams=True,
            bodies=[_completion(OpenAICompletionBody, OpenAICompletionTranslator, _BY_MODEL)]),
    _openai("POST", "/embeddings", "Embeds texts.",
            bodies=[_embedding(OpenAIEmbeddingBody, OpenAIEmbeddingTranslator, _BY_EMBEDDER)]),
    _openai("POST", "/responses", "Answers items.", streams=True, bodies=[_response(OpenAIResponseTranslator)]),
    _openai("GET", "/models", "Lists the models.", answer=answers.ModelsAnswer),
    _openai("GET", "/models/{model}", "Describes a model.", answer=answers.ModelAnswer, parameters=[_NAMED]),
    _deployment("/chat/completions", "Answers a conversation.", streams=True,
                body=_chat(DeploymentChatBody, DeploymentChatTranslator, {})),
    _deployment("/completions", "Continues prompts.", streams=True,
                body=_completion(DeploymentCompletionBody, DeploymentCompletionTranslator, {})),
    _deployment("/embeddings", "Embeds texts.",
                body=_embedding(DeploymentEmbeddingBody, DeploymentEmbeddingTranslator, {}, name=_EMBEDDER)),
    _databricks("POST", "/serving-endpoints/{name}/invocations", "Asks an endpoint: its body says for what.",
                streams=True, parameters=[_ENDPOINT],
                bodies=[_chat(DatabricksChatBody, InvocationTranslator, {}),
                        _completion(DatabricksCompletionBody, InvocationTranslator, {}),
                        _embedding(DatabricksEmbeddingBody, InvocationTranslator, {}, name=_EMBEDDER)]),
    _databricks("POST", "/serving-endpoints/chat/completions", "Answers a conversation.", streams=True,
                bodies=[_chat(DatabricksChatBody, DatabricksChatTranslator, _BY_MODEL)]),
    _databricks("POST", "/serving-endpoints/completions", "Continues prompts.", streams=True,
                bodies=[_completion(DatabricksCompletionBody, DatabricksCompletionTranslator, _BY_MODEL)]),
    _databricks("POST", "/serving-endpoints/embeddings", "Embeds texts.",
                bodies=[_embedding(DatabricksEmbeddingBody, DatabricksEmbeddingTranslator, _BY_EMBEDDER)]),
    _databricks("POST", "/serving-endpoints/responses", "Answers items.", streams=True,
                bodies=[_response(DatabricksResponseTranslator)]),
    _databricks("GET", _API, "Lists the endpoints.", answer=operator_answers.EndpointsAnswer),
    _databricks("POST", _API, "Makes an endpoint.", bodies=[Body(EndpointBody, _NEW, _creation, _CHANGES)]),
    _databricks("POST", f"{_API}/pt", "Makes an endpoint.", bodies=[Body(EndpointBody, _NEW, _creation, _CHANGES)]),
    _databricks("GET", f"{_API}/{{name}}", "Describes an endpoint.", answer=_CHANGES, parameters=[_ENDPOINT]),
    _databricks("PUT", f"{_API}/{{name}}/config", "Puts other models behind an endpoint.", parameters=[_MADE],
                bodies=[Body(ConfigBody, _CONFIG, _update, _CHANGES)]),
    _databricks("PUT", f"{_API}/pt/{{name}}/config", "Puts other models behind an endpoint.", parameters=[_MADE],
                bodies=[Body(ConfigBody, _CONFIG, _update, _CHANGES)]),
    _databricks("DELETE", f"{_API}/{{name}}", "Removes an endpoint.", answer=operator_answers.NothingAnswer,
                parameters=[_MADE]),
    *(
        operation
        for base in ("", "/models")
        for operation in (
            _azure("POST", f"{base}/chat/completions", "Answers a conversation.", streams=True,
                   bodies=[_chat(AzureChatBody, AzureTranslator, _BY_MODEL)]),
            _azure("POST", f"{base}/embeddings", "Embeds texts.",
                   bodies=[_embedding(AzureEmbeddingBody, AzureEmbeddingTranslator, _BY_EMBEDDER,
                                      azureml_model_deployment=_EMBEDDER)]),
            _azure("GET", f"{base}/info", "Describes the model.", answer=operator_answers.ModelInfoAnswer),
        )
    ),
    *(
        operation
        for form in _FORMS
        for operation in (
            _generate(form, stream=False),
            _generate(form, stream=True),
            _triton("GET", form, "Describes a model.", answer=operator_answers.ModelMetadata),
            _triton("GET", f"{form}/ready", "Tells whether a model is ready.", answer=operator_answers.ModelReadiness),
        )
    ),
    _triton("GET", "", "Describes the server.", answer=operator_answers.ServerMetadata),
    _triton("GET", "/health/live", "Tells whether the server lives.", answer=operator_answers.Liveness),
    _triton("GET", "/health/ready", "Tells whether the server is ready.", answer=operator_answers.Readiness),
)  # fmt: skip
