"""The tables of docs/api describe the code: every row is tested."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from google.protobuf.message import Message
from sluice.inference.inference_pb2 import ModelInferRequest
from sluice.v1.chat_pb2 import ChatRequest
from sluice.v1.completion_pb2 import CompleteRequest
from sluice.v1.embedding_pb2 import EmbedRequest
from sluice.v1.rank_pb2 import RankRequest, ScoreRequest
from sluice.v1.response_pb2 import CreateResponseRequest
from sluice.v1.text_generation_pb2 import GenerateTextRequest

from gateway.dialects.anthropic.body import MessagesBody
from gateway.dialects.anthropic.messages import AnthropicTranslator
from gateway.dialects.azure.chat import NAMED, AzureChatBody, AzureTranslator
from gateway.dialects.azure.embedding import NAMED as NAMED_EMBEDDING
from gateway.dialects.azure.embedding import AzureEmbeddingBody, AzureEmbeddingTranslator
from gateway.dialects.cohere.body import CohereChatBody
from gateway.dialects.cohere.chat import CohereTranslator
from gateway.dialects.cohere.embedding import CohereEmbedBody, CohereEmbedTranslator
from gateway.dialects.databricks.chat import DatabricksChatBody, DatabricksChatTranslator
from gateway.dialects.databricks.completion import DatabricksCompletionBody, DatabricksCompletionTranslator
from gateway.dialects.databricks.embedding import DatabricksEmbeddingBody, DatabricksEmbeddingTranslator
from gateway.dialects.mindie.body import GenerateBody, GenerateParameters
from gateway.dialects.mindie.generate import MindieTranslator
from gateway.dialects.mindie.infer import InferTranslator
from gateway.dialects.mindie.infer_body import InferBody
from gateway.dialects.ollama.chat import OllamaChatBody, OllamaChatTranslator
from gateway.dialects.ollama.embedding import OllamaEmbedBody, OllamaEmbedTranslator
from gateway.dialects.ollama.generate import OllamaGenerateBody, OllamaGenerateTranslator
from gateway.dialects.ollama.options import OllamaOptions
from gateway.dialects.openai.chat import ChatCompletionBody, OpenAITranslator
from gateway.dialects.openai.completion import OpenAICompletionBody, OpenAICompletionTranslator
from gateway.dialects.openai.embedding import OpenAIEmbeddingBody, OpenAIEmbeddingTranslator
from gateway.dialects.openai.response import OpenAIResponseTranslator
from gateway.dialects.openai_family.responses.body import ResponseBody
from gateway.dialects.rank.body import RerankBody, ScoreBody
from gateway.dialects.rank.rerank import RerankTranslator, ScoreTranslator
from gateway.dialects.seam.encoder import WholeEncoder
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.translator import ParsedRequest, ServiceRequest, Translator
from gateway.routes.dialects.surfaces import OPERATIONS
from tests.gateway import golden_answers

DOCS = Path(__file__).resolve().parents[3] / "docs" / "api"
MESSAGES = {"messages": [{"role": "user", "content": "hi"}]}
AZURE: dict[str, Any] = {
    "headers": {"extra-parameters": "pass-through"},
    "query": {"api-version": "2024-05-01-preview"},
}
RERANK = {"model": "m", "query": "a", "documents": ["a", "b"]}
OF_MODEL = {"path": {"model": "m"}}
# An answer of each RPC that generates, whole and as events.
ANSWERS: dict[type[Message], tuple[Message, Sequence[Any]]] = {
    request: (effect_text[unary][0], effect_text.get(f"Stream{unary}", []))  # type: ignore[misc]
    for request, unary, effect_text in (
        (ChatRequest, "Chat", golden_answers.CHATS["reasoning"]),
        (CompleteRequest, "Complete", golden_answers.COMPLETIONS["text"]),
        (EmbedRequest, "Embed", golden_answers.VECTORS),
        (RankRequest, "Rank", golden_answers.RANKS),
        (ScoreRequest, "Score", golden_answers.RANKS),
        (CreateResponseRequest, "CreateResponse", golden_answers.response("text")),
        (GenerateTextRequest, "GenerateText", golden_answers.GENERATION),
        (ModelInferRequest, "ModelInfer", golden_answers.TENSORS),
    )
}
GENERATE = partial(MindieTranslator, stream=True)


@dataclass(frozen=True)
class Table:
    """A table of fields: its page and route, the type that has them, who reads it, a valid body, and what else is sent.

    The fields are of the body, or of its object `within`.
    """

    page: str
    route: str
    body: type[msgspec.Struct]
    translator: Callable[[], Translator]
    base: dict[str, Any]
    sent: dict[str, Any] = field(default_factory=dict)
    within: str | None = None

    def rows(self) -> list[tuple[str, dict[str, Any], str, str]]:
        """Return (field, example, effect, note) of each row."""
        page = (DOCS / f"{self.page}.md").read_text()
        section = page.partition(f"## Fields of `{self.route}`\n")[2].partition("\n## ")[0]
        table = [line.split(" | ") for line in section.splitlines() if line.startswith("| `")]
        return [(c[0].strip("| `"), json.loads("{" + c[1].strip("`") + "}"), c[2], c[3].strip(" |")) for c in table]

    def effect(self, fields: dict[str, Any]) -> tuple[object, ...]:
        """Return everything that a body determines: the request, how it is sent, and the encoded answer."""
        parsed = self._parse(fields)
        whole, events = ANSWERS[type(parsed.request)]
        encoded = parsed.encoder.whole(whole)
        if not isinstance(parsed.encoder, WholeEncoder):
            encoder = self._parse(fields).encoder
            encoded += b"".join(encoder.chunk(event) for event in events)
        return parsed.request, parsed.stream, parsed.affinity, parsed.timeout_s, encoded

    def _parse(self, fields: dict[str, Any]) -> ParsedRequest[ServiceRequest]:
        body = self.base | (fields if self.within is None else {self.within: fields})
        return self.translator().parse(HttpRequest(json.dumps(body).encode(), **self.sent))


MESSAGE = {"model": "m", "max_tokens": 100, **MESSAGES}
TABLES = [
    Table("anthropic", "POST /v1/messages", MessagesBody, AnthropicTranslator, MESSAGE),
    Table("openai", "POST /v1/chat/completions", ChatCompletionBody, OpenAITranslator, {"model": "m", **MESSAGES}),
    Table(
        "openai",
        "POST /v1/completions",
        OpenAICompletionBody,
        OpenAICompletionTranslator,
        {"model": "m", "prompt": "hi"},
    ),
    Table(
        "openai", "POST /v1/embeddings", OpenAIEmbeddingBody, OpenAIEmbeddingTranslator, {"model": "m", "input": "hi"}
    ),
    Table("responses", "POST /v1/responses", ResponseBody, OpenAIResponseTranslator, {"model": "m", "input": "hi"}),
    Table("azure", "POST /chat/completions", AzureChatBody, AzureTranslator, MESSAGES, AZURE),
    Table("azure", "POST /embeddings", AzureEmbeddingBody, AzureEmbeddingTranslator, {"input": "hi"}, AZURE),
    Table(
        "databricks",
        "POST /serving-endpoints/chat/completions",
        DatabricksChatBody,
        DatabricksChatTranslator,
        {"model": "m", **MESSAGES},
    ),
    Table(
        "databricks",
        "POST /serving-endpoints/completions",
        DatabricksCompletionBody,
        DatabricksCompletionTranslator,
        {"model": "m", "prompt": "hi"},
    ),
    Table(
        "databricks",
        "POST /serving-endpoints/embeddings",
        DatabricksEmbeddingBody,
        DatabricksEmbeddingTranslator,
        {"model": "m", "input": "hi"},
    ),
    Table("cohere", "POST /v2/chat", CohereChatBody, CohereTranslator, {"model": "m", **MESSAGES}),
    Table("cohere", "POST /v2/embed", CohereEmbedBody, CohereEmbedTranslator, {"model": "m", "texts": ["a"]}),
    Table("ollama", "POST /api/chat", OllamaChatBody, OllamaChatTranslator, {"model": "m", **MESSAGES}),
    Table("ollama", "POST /api/generate", OllamaGenerateBody, OllamaGenerateTranslator, {"model": "m", "prompt": "hi"}),
    Table("ollama", "options", OllamaOptions, OllamaChatTranslator, {"model": "m", **MESSAGES}, within="options"),
    Table(
        "ollama",
        "POST /api/embed",
        OllamaEmbedBody,
        partial(OllamaEmbedTranslator, lambda: 0),
        {"model": "m", "input": "a"},
    ),
    Table("rank", "POST /v2/rerank", RerankBody, RerankTranslator, RERANK),
    Table("rank", "POST /v1/score", ScoreBody, ScoreTranslator, {"model": "m", "text_1": "a", "text_2": "b"}),
    Table("mindie", "POST /v2/models/{model}/generate_stream", GenerateBody, GENERATE, {"text_input": "hi"}, OF_MODEL),
    Table(
        "kserve",
        "POST /v2/models/{model}/infer",
        InferBody,
        InferTranslator,
        {"inputs": [{"name": "a", "datatype": "BYTES", "shape": [1], "data": ["a"]}]},
        OF_MODEL,
    ),
    Table("mindie", "parameters", GenerateParameters, GENERATE, {"text_input": "hi"}, OF_MODEL, within="parameters"),
]
ROWS = [(table, *row[:3]) for table in TABLES for row in table.rows()]


@pytest.mark.parametrize("table", TABLES, ids=[table.route for table in TABLES])
def test_table_has_every_field(table: Table) -> None:
    """The table and the model of the body have the same fields."""
    assert sorted(row[0] for row in table.rows()) == sorted(f.encode_name for f in msgspec.structs.fields(table.body))


@pytest.mark.parametrize(
    ("table", "name", "example", "effect_text"), ROWS, ids=[f"{table.route} {name}" for table, name, *_ in ROWS]
)
def test_documented_effect_of_each_field_is_true(
    table: Table, name: str, example: dict[str, Any], effect_text: str
) -> None:
    """A field with an effect changes the call, one without effect does not, and a rejected one is named.

    An example sets the fields to null that its field replaces.
    """
    rest = {other: value for other, value in example.items() if other != name and value is not None}
    if effect_text == "refused":
        with pytest.raises(Failure) as caught:
            table.effect(example)
        field = name if table.within is None else f"{table.within}.{name}"
        assert (caught.value.reason, caught.value.field) == (Reason.UNSUPPORTED_FIELD, field)
    else:
        assert effect_text in {"used", "none", "echoed"}
        with_it, without = table.effect(example), table.effect(rest)
        assert (with_it != without) == (effect_text != "none")
        assert effect_text != "echoed" or with_it[:-1] == without[:-1]


@pytest.mark.parametrize(("table", "named"), [(TABLES[5], NAMED), (TABLES[6], NAMED_EMBEDDING)])
def test_azure_tables_mark_extra_fields(table: Table, named: frozenset[str]) -> None:
    """Parameters that Azure's API doesn't define are marked as extra."""
    assert {name for name, _, _, note in table.rows() if not note.startswith("extra")} == named


def test_pages_have_every_path() -> None:
    """The tables of paths have exactly the paths of the OpenAPI document; `[…]` may be omitted."""
    encoded: set[tuple[str, str]] = set()
    for page in DOCS.glob("*.md"):
        for line in re.findall(r"^\| (`(?:GET|POST|PUT|DELETE) /[^|]*) \|", page.read_text(), re.MULTILINE):
            method, _, paths = line.strip("`").partition(" ")
            for path in paths.split("`, `"):
                encoded |= {(method, re.sub(r"\[.*\]", "", path)), (method, path.replace("[", "").replace("]", ""))}
    assert sorted(encoded) == sorted((each.method, each.path) for each in OPERATIONS)
