"""The Azure AI model inference API: bodies, extra parameters, errors by status."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from sluice.v1 import chat_pb2, content_pb2, embedding_pb2

from gateway.dialects.azure.chat import NAMED, AzureEncoder, AzureTranslator
from gateway.dialects.azure.embedding import AzureEmbeddingTranslator
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.translator import ParsedRequest
from tests.gateway.dialects.azure_requests import VERSION, error_of, http_request
from tests.gateway.fake_services import VECTORS


def parse(headers: dict[str, str] | None = None, **fields: Any) -> ParsedRequest[chat_pb2.ChatRequest]:
    """Return the call of the request."""
    return AzureTranslator().parse(http_request(headers, **fields))


def embed(headers: dict[str, str] | None = None, **fields: Any) -> ParsedRequest[embedding_pb2.EmbedRequest]:
    """Return the call of a valid embedding request changed by `fields`."""
    body = json.dumps({"input": ["a"], **fields}).encode()
    return AzureEmbeddingTranslator().parse(HttpRequest(body, headers or {}, query=VERSION))


@pytest.mark.parametrize("version", ["2024-05-01", "2024-04-01-preview"])
def test_any_date_is_accepted_as_version(version: str) -> None:
    """Any date is accepted as a version, with or without -preview."""
    assert AzureTranslator().parse(http_request(query={"api-version": version})).request.messages


def test_version_is_optional() -> None:
    """The version is optional: langchain-azure-ai omits it, and all versions are served alike."""
    assert AzureTranslator().parse(http_request(query={})).request.messages


@pytest.mark.parametrize("version", ["", "latest", "2024-5-1", "2024-05-01-beta", "2024-05-01-preview\n"])
def test_malformed_version_is_rejected(version: str) -> None:
    """A malformed version is rejected with the name of the parameter."""
    with pytest.raises(Failure) as caught:
        AzureTranslator().parse(http_request(query={"api-version": version}))
    assert caught.value.field == "api-version"
    assert error_of(caught.value)[0] == 400


def test_named_parameters_have_effect() -> None:
    """Every parameter that the API names works without any header."""
    fields: dict[str, Any] = {
        "model": "m", "frequency_penalty": 0.5, "presence_penalty": 0.5, "max_tokens": 5, "seed": 1, "stop": ["x"],
        "stream": True, "temperature": 0.5, "tool_choice": "none", "top_p": 0.5,
        "response_format": {"type": "json_object"}, "tools": [{"type": "function", "function": {"name": "f"}}],
    }  # fmt: skip
    assert {*fields, "messages", "stream_options", "max_completion_tokens"} == NAMED  # the other name of max_tokens
    usage = chat_pb2.StreamChatResponse(usage={"prompt_tokens": 1})
    assert parse(stream=True, stream_options={"include_usage": True}).encoder.chunk(usage)  # of newer versions
    assert not parse(stream=True).encoder.chunk(usage)
    plain = parse()
    for name, value in fields.items():
        call = parse(**{name: value})
        assert (call.request, call.stream) != (plain.request, plain.stream), name


@pytest.mark.parametrize("mode", [{}, {"extra-parameters": "error"}, {"extra-parameters": "drop"}])
def test_max_completion_tokens_is_a_named_parameter(mode: dict[str, str]) -> None:
    """The newer name of `max_tokens` has effect in every mode, since Azure's clients send it without the header."""
    assert parse(mode, max_completion_tokens=5).request.stopping.max_tokens == 5


@pytest.mark.parametrize("mode", [{}, {"extra-parameters": "error"}])
@pytest.mark.parametrize("name", ["top_k", "n", "colour"])
def test_extra_parameter_is_an_error_by_default(mode: dict[str, str], name: str) -> None:
    """A parameter that the API doesn't define is rejected with 400, even if the server knows it."""
    extra: dict[str, Any] = {name: 2}
    request = http_request(mode, **extra)
    with pytest.raises(Failure) as caught:
        AzureTranslator().parse(request)
    assert caught.value.field == name
    status, body, code = error_of(caught.value, http_request())
    assert (status, code, body["param"]) == (400, "extra_parameter", name)


@pytest.mark.parametrize("mode", ["ignore", "drop"])
def test_ignored_extra_parameters_have_no_effect(mode: str) -> None:
    """Ignored parameters have no effect, even with a wrong type; the API's own are still checked."""
    call = parse({"extra-parameters": mode}, top_k=2, colour={"a": 1}, n="many")
    assert call.request == parse().request
    with pytest.raises(Failure) as caught:
        parse({"extra-parameters": mode}, temperature="hot", colour=1)
    assert caught.value.field == "temperature"


def test_extra_parameters_pass_through() -> None:
    """Every sampling parameter of the service can be passed through; an unknown one is an error."""
    call = parse(
        {"extra-parameters": "pass-through"},
        top_k=2, min_p=0.5, typical_p=0.5, repetition_penalty=1.5, logit_bias={"5": 1}, watermark=True, min_tokens=1,
        stop_token_ids=[3], ignore_eos=True, n=2, logprobs=True, top_logprobs=2, priority=1, cache_salt="t",
        reasoning_effort="low", parallel_tool_calls=False,
    )  # fmt: skip
    given = {field.name for field, _ in call.request.sampling.ListFields()}
    assert given == {"top_k", "min_p", "typical_p", "repetition_penalty", "logit_bias", "watermark"}
    assert {field.name for field, _ in call.request.stopping.ListFields()} == {
        "min_tokens", "stop_token_ids", "ignore_eos",
    }  # fmt: skip
    assert (call.request.n, call.request.logprobs.top_logprobs, call.request.parallel_tool_calls) == (2, 2, False)
    assert call.request.reasoning_effort == chat_pb2.REASONING_EFFORT_LOW
    with pytest.raises(Failure) as caught:
        parse({"extra-parameters": "pass-through"}, colour=1)
    assert caught.value.field == "colour"


def test_unknown_mode_is_rejected() -> None:
    """The header has four values."""
    with pytest.raises(Failure) as caught:
        parse({"extra-parameters": "maybe"})
    assert caught.value.field == "extra-parameters"


def test_deployment_name_is_sent_to_the_service() -> None:
    """The deployment's name is sent to the service unchanged."""
    assert parse({"azureml-model-deployment": "blue"}).request.serving.deployment == "blue"
    assert parse().request.serving.deployment == ""


@pytest.mark.parametrize("name", ["", "m" * 257])
@pytest.mark.parametrize("ask", [parse, embed], ids=["chat", "embeddings"])
def test_model_is_validated_with_a_deployment(ask: Callable[..., ParsedRequest[Any]], name: str) -> None:
    """An invalid model name is rejected although the deployment's name would replace it."""
    with pytest.raises(Failure, match="1 to 256 characters") as caught:
        ask({"azureml-model-deployment": "blue"}, model=name)
    assert caught.value.field == "model"


def test_answers_are_chat_completions() -> None:
    """Whole answers have the documented form; a stream has no comments, and a failed one ends with a named event."""
    answer = chat_pb2.ChatResponse(
        id="7", model="m", system_fingerprint="fp", choices=[chat_pb2.ChatChoice(
            message=content_pb2.Message(content=[content_pb2.ContentPart(text="Hi")]),
            finish_reason=chat_pb2.FINISH_REASON_STOP,
        )],
    )  # fmt: skip
    body = json.loads(AzureEncoder().whole(answer))
    assert {"id", "object", "created", "model", "choices", "usage", "system_fingerprint"} == set(body)
    assert (body["object"], body["choices"][0]["message"]["content"]) == ("chat.completion", "Hi")
    assert not AzureEncoder.ping
    name, data, *rest = AzureEncoder().error(Failure(Reason.INTERNAL, "no")).decode().split("\n")
    assert (name, rest) == ("event: error", ["", ""])
    assert json.loads(data.removeprefix("data: "))["message"] == "no"


def test_embedding_request() -> None:
    """The API's parameters and the extra `instruction` are accepted, and the answer has an id."""
    call = embed({"azureml-model-deployment": "blue"}, model="m", dimensions=4, input_type="query")
    assert (call.request.model, call.request.dimensions, call.request.serving.deployment) == ("m", 4, "blue")
    assert call.request.input_type == embedding_pb2.INPUT_TYPE_QUERY
    assert [prompt.text for prompt in call.request.inputs] == ["a"]
    assert json.loads(call.encoder.whole(VECTORS))["id"] == "embd-1"
    assert embed({"extra-parameters": "pass-through"}, instruction="q: ").request.instruction == "q: "
    with pytest.raises(Failure) as caught:
        embed(instruction="q: ")
    assert caught.value.field == "instruction"


def test_unsupported_embedding_format_is_rejected_with_422() -> None:
    """Formats that the API defines but no model here supports are rejected with 422."""
    translator = AzureEmbeddingTranslator()
    body = json.dumps({"input": ["a"], "encoding_format": "int8"}).encode()
    with pytest.raises(Failure) as caught:
        translator.parse(HttpRequest(body, query=VERSION))
    rejection = translator.error_response(caught.value)
    assert rejection.status == 422
    assert json.loads(rejection.body)["detail"] == {"loc": ["encoding_format"], "value": "int8"}


def test_content_parts_are_accepted_as_documented() -> None:
    """A text or image in `content` is accepted under both names of images, as is its clients' form."""
    parts = [
        {"type": "text", "content": "a"},
        {"type": "text", "text": ""},
        {"type": "image", "content": "https://x/y.png", "detail": "low"},
        {"type": "image_url", "content": "aGk="},
        {"type": "image_url", "image_url": {"url": "https://x/z.png"}},
    ]
    (message,) = parse(messages=[{"role": "user", "content": parts}]).request.messages
    assert [part.text for part in message.content[:2]] == ["a", ""]
    urls = [part.image_url.url for part in message.content[2:]]
    assert urls == ["https://x/y.png", "data:;base64,aGk=", "https://x/z.png"]
    assert message.content[2].image_url.detail == content_pb2.IMAGE_DETAIL_LOW


@pytest.mark.parametrize("kind", ["text", "image", "image_url"])
def test_part_without_content_is_rejected(kind: str) -> None:
    """A part without content is rejected with the documented field name."""
    with pytest.raises(Failure) as caught:
        parse(messages=[{"role": "user", "content": [{"type": kind}]}])
    assert (caught.value.field, caught.value.reason) == ("messages.0.content.0.content", Reason.MISSING_FIELD)


def test_image_error_names_the_field_that_was_sent() -> None:
    """An error of the service about an image names `content` if that was sent."""
    parts = [{"type": "image", "content": "https://x"}, {"type": "image_url", "image_url": {"url": "https://x"}}]
    name = parse(messages=[{"role": "user", "content": parts}]).caller_name
    assert name("messages[0].content[0].image_url") == "messages.0.content.0.content"
    assert name("messages[0].content[1].image_url") == "messages.0.content.1.image_url"


@pytest.mark.parametrize("mode", ["ignore", "drop"])
def test_unknown_fields_are_removed_at_every_depth(mode: str) -> None:
    """Unknown fields are removed from tools, choices, formats and parts; a schema stays verbatim."""
    schema = {"type": "object", "colour": 1.0, "properties": {"a": {"shade": "b"}}}
    fields: dict[str, Any] = {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "a", "colour": 1}], "colour": 1}],
        "tools": [
            {"type": "function", "function": {"name": "f", "parameters": schema, "colour": 1}, "colour": {"a": 1}}
        ],
        "tool_choice": {"type": "function", "function": {"name": "f", "colour": 1}, "colour": 1},
        "response_format": {
            "type": "json_schema", "json_schema": {"name": "s", "schema": schema, "colour": 1}, "colour": 1,
        },
    }  # fmt: skip
    request = parse({"extra-parameters": mode}, **fields, colour=1).request
    assert (request.tool_choice.function_name, request.messages[0].content[0].text) == ("f", "a")
    assert request.tools[0].function.parameters == json.dumps(schema)
    assert request.output_constraint.json_schema.schema == json.dumps(schema)
    with pytest.raises(Failure) as caught:
        parse(**fields)
    assert caught.value.reason is Reason.UNKNOWN_FIELD


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"messages": 5}, "messages"),
        ({"messages": [5]}, "messages.0"),
        ({"messages": [{"role": "user", "content": [{"type": "smell"}]}]}, "messages.0.content.0.type"),
        ({"tools": [{"type": "function", "function": {"name": 5}}]}, "tools.0.function.name"),
    ],
)
def test_known_fields_are_validated_when_unknown_ones_are_removed(fields: dict[str, Any], field: str) -> None:
    """Removing unknown fields changes no error about the remaining ones."""
    for mode in ("ignore", "error"):
        with pytest.raises(Failure) as caught:
            parse({"extra-parameters": mode}, **fields)
        assert caught.value.field == field
