"""The OpenAPI document has every path, its limits are the contract's, and its examples work."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from gateway.dialects.anthropic.answer import MessageEvent
from gateway.dialects.cohere.answer import CohereChatEvent
from gateway.dialects.mindie.answer import GenerationChunk
from gateway.dialects.ollama.answer import OllamaChatAnswer, OllamaGenerateAnswer
from gateway.dialects.openai_family.answers.chunk import ChatChunk, CompletionChunk, ResponseEvent
from gateway.openapi.document import build_document
from gateway.openapi.schema import follow
from gateway.routes.dialects.surfaces import OPERATIONS, SURFACES
from gateway.routes.surface.operation import Body, Operation
from tests.gateway.conftest import Gateway

# for operators and browsers
UNDOCUMENTED = re.compile(
    r"/(|page/[a-z.-]+|livez|healthz?|ping|version|readyz|metrics|status(\.json)?|openapi\.json|sluice\.binpb|docs(/.*)?)"
)
GOLDEN = Path(__file__).parents[1] / "golden" / "exchanges"
BODIES = [(each, body) for each in OPERATIONS for body in each.bodies]


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """Return the whole document."""
    return build_document(SURFACES)


async def test_document_has_every_route(gateway: Gateway, document: dict[str, Any]) -> None:
    """The document and the running application have the same paths and methods."""
    app = gateway.server.config.app
    assert isinstance(app, Starlette)
    routes = [route for route in app.routes if isinstance(route, Route)]
    assert len(routes) == len(app.routes)
    served = {
        (method.lower(), re.sub(r":\w+}", "}", route.path))
        for route in routes
        for method in route.methods or ()
        if method != "HEAD" and not UNDOCUMENTED.fullmatch(route.path)
    }
    assert {(method, path) for path, methods in document["paths"].items() for method in methods} == served


@pytest.mark.parametrize(("operation", "body"), BODIES, ids=[f"{o.path} {b.kind.__name__}" for o, b in BODIES])
def test_example_is_valid_for_its_schema(operation: Operation, body: Body) -> None:
    """Each example is valid for the type in the document."""
    assert operation.parse_example(body).request.ByteSize()
    assert isinstance(msgspec.convert(dict(body.example), body.kind), body.kind)


@pytest.mark.parametrize(
    ("schema", "path", "keyword", "value"),
    [
        ("ChatCompletionBody", "temperature", "maximum", 2),
        ("ChatCompletionBody", "messages", "maxItems", 4096),
        ("ChatCompletionBody", "n", "maximum", 128),
        ("ChatCompletionBody", "top_logprobs", "maximum", 20),
        ("ChatCompletionBody", "stop.0", "maxLength", 1024),
        ("ChatCompletionBody", "tools.0.function.name", "pattern", "^[A-Za-z0-9_-]{1,64}$"),
        ("AzureChatBody", "presence_penalty", "minimum", -2),
        ("DatabricksCompletionBody", "top_p", "exclusiveMinimum", 0),
        ("OpenAIEmbeddingBody", "dimensions", "minimum", 1),
        ("OpenAIEmbeddingBody", "input", "maxLength", 4194304),
        ("OpenAIEmbeddingBody", "input", "maxItems", 1048576),  # texts, or the tokens of one
        ("GenerateBody", "parameters.top_p", "maximum", 1),
        ("MessagesBody", "max_tokens", "minimum", 1),
        ("MessagesBody", "temperature", "maximum", 1),
        ("MessagesBody", "messages", "maxItems", 4096),
        ("MessagesBody", "stop_sequences.0", "maxLength", 1024),
        ("MessagesBody", "tools.0.name", "pattern", "^[A-Za-z0-9_-]{1,64}$"),
        ("CountTokensBody", "model", "maxLength", 256),
        ("GenerateBody", "text_input", "maxLength", 524288),
        ("RerankBody", "documents", "maxItems", 2048),
        ("RerankBody", "documents.0", "maxLength", 4194304),
        ("RerankBody", "query", "maxLength", 65536),
        ("RerankBody", "max_tokens_per_doc", "minimum", 1),
        ("RerankBody", "priority", "maximum", 100),
        ("ScoreBody", "text_2", "maxItems", 2048),
        ("ScoreBody", "text_1", "maxLength", 65536),
        ("ResponseBody", "metadata", "maxProperties", 16),
        ("ConfigBody", "traffic_config.routes.0.traffic_percentage", "maximum", 100),
    ],
)
def test_limits_are_the_contracts(
    document: dict[str, Any], schema: str, path: str, keyword: str, value: object
) -> None:
    """The limits of the `.proto` files are attached to the caller's field names."""
    schemas = document["components"]["schemas"]
    place = follow(schemas[schema], path, schemas)
    assert place is not None
    found = [each[keyword] for each in [place, *place.get("anyOf", ())] if keyword in each]
    assert found == [value]


def test_bodies_are_optional_where_tritons_clients_leave_them_out(document: dict[str, Any]) -> None:
    """All other operations with a body require it."""
    optional = {
        (method, path)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if not operation.get("requestBody", {"required": True})["required"]
    }
    repository = "/v2/repository"
    assert optional == {
        ("post", f"{repository}/index"),
        *(("post", f"{repository}/models/{{model}}/{verb}") for verb in ("load", "unload")),
    }


def test_limits_of_parts_do_not_apply_to_a_text_input(document: dict[str, Any]) -> None:
    """A text as `input` is a whole message, so limits of ids and names inside items don't apply to it."""
    text, items = document["components"]["schemas"]["ResponseBody"]["properties"]["input"]["anyOf"]
    assert text == {"type": "string"}
    assert (items["minItems"], items["maxItems"]) == (1, 4096)


def test_path_parameter_example_matches_the_bodys_example(document: dict[str, Any]) -> None:
    """If a body needs another endpoint, the parameter has an example with the body's name."""
    operation = document["paths"]["/serving-endpoints/{name}/invocations"]["post"]
    assert {name: each["value"] for name, each in operation["parameters"][0]["examples"].items()} == {
        "DatabricksChatBody": "sluice-demo",
        "DatabricksCompletionBody": "sluice-demo",
        "DatabricksEmbeddingBody": "all-minilm-l6-v2",
        "ResponseBody": "sluice-demo",
    }
    assert set(operation["requestBody"]["content"]["application/json"]["examples"]) == set(
        operation["parameters"][0]["examples"]
    )


def test_headers_of_limits_and_retries_are_described(document: dict[str, Any]) -> None:
    """Answers and errors of generations have rate limit headers, and retryable errors a delay."""
    generates = document["paths"]["/v1/chat/completions"]["post"]["responses"]
    looks_up = document["paths"]["/v1/models"]["get"]["responses"]
    retry = {"retry-after", "retry-after-ms"}
    assert set(generates["429"]["headers"]) == (retry | set(generates["200"]["headers"])) - {"x-sluice-cost"}
    assert "x-sluice-cost" in generates["200"]["headers"]
    assert "x-ratelimit-remaining-tokens" in generates["200"]["headers"]
    assert set(generates["503"]["headers"]) == set(looks_up["503"]["headers"]) == retry
    assert "headers" not in looks_up["200"]
    full = document["paths"]["/v1/messages"]["post"]["responses"]["529"]
    assert (set(full["headers"]), full["description"], "529" in generates) == (retry, "Overloaded.", False)
    for name, reference in generates["429"]["headers"].items():
        assert reference == {"$ref": f"#/components/headers/{name}"}
        assert document["components"]["headers"][name]["description"]


def events(stream: str) -> list[Any]:
    """Return the data of a stream's events without the end mark, or the lines of a stream without events."""
    if stream.startswith("{"):
        return [json.loads(each) for each in stream.splitlines()]
    data = re.findall(r"^data: ?(.*)$", stream, re.MULTILINE)
    return [json.loads(each) for each in data if each != "[DONE]"]


STREAMING = [each for each in OPERATIONS if each.streams]
RECORDED = {  # the streams of golden/exchanges, by their names' beginnings
    "openai_chat": ChatChunk,
    "azure_chat": ChatChunk,
    "openai_completion": CompletionChunk,
    "invocation_completion": CompletionChunk,
    "openai_response": ResponseEvent,
    "anthropic_message": MessageEvent,
    "cohere_chat": CohereChatEvent,
    "mindie_generate": GenerationChunk,
    "ollama_chat": OllamaChatAnswer,
    "ollama_generate": OllamaGenerateAnswer,
}


@pytest.mark.parametrize("operation", STREAMING, ids=[each.path for each in STREAMING])
def test_streams_have_a_schema(document: dict[str, Any], operation: Operation) -> None:
    """A stream has the schema of an event, and for each kind of data an example stream that conforms to it."""
    content = document["paths"][operation.path]["post"]["responses"]["200"]["content"]
    if operation.path in {"/api/chat", "/api/generate"}:
        described = content["application/x-ndjson"]
        schema = {"components": document["components"], **described["schema"]}
    else:
        described = content["text/event-stream"]
        text, end = described["schema"]["properties"]["data"]["anyOf"]
        assert (text["contentMediaType"], end) == ("application/json", {"const": "[DONE]"})
        schema = {"components": document["components"], **text["contentSchema"]}
    assert set(described["examples"]) == {kind.__name__ for kind in operation.chunks} != set()
    for example in described["examples"].values():
        assert events(example["value"])
        for event in events(example["value"]):
            jsonschema.validate(event, schema)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*_stream*.txt")), ids=lambda path: path.stem)
def test_recorded_stream_events_are_valid_for_their_schema(path: Path) -> None:
    """Each encoded event conforms to the document's type, or is the error at the end of a stream."""
    (kind,) = [kind for name, kind in RECORDED.items() if path.stem.startswith(name)]
    *earlier, last = events(path.read_text().partition("\nHTTP 200\n")[2].partition("\n\n")[2])
    assert all(isinstance(msgspec.convert(each, kind), kind) for each in earlier)
    assert "error" in last or last.get("type") == "error" or isinstance(msgspec.convert(last, kind), kind)


def test_unknown_fields_are_rejected_in_every_body(document: dict[str, Any]) -> None:
    """The schemas forbid unknown fields, so that client generators see it."""
    schemas = document["components"]["schemas"]
    assert all(schemas[body.kind.__name__]["additionalProperties"] is False for _, body in BODIES)


async def test_document_and_viewer_are_served(gateway: Gateway) -> None:
    """The page loads nothing from other hosts, and all of its files are served."""
    document = (await gateway.http.get("/openapi.json")).json()
    assert document["openapi"] == "3.1.0"
    page = await gateway.http.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    links = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert [link for link in links if link.startswith(("http", "//"))] == []
    for link in links:
        if link.startswith("page/"):
            answer = await gateway.http.get(f"/{link}")
            assert answer.status_code == 200, link
            assert answer.content
