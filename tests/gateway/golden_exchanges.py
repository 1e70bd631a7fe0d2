"""The golden exchanges: requests of every dialect, and the service's answers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.gateway import golden_answers as said
from tests.gateway.golden_service import Answers

_Body = dict[str, Any]


@dataclass(frozen=True)
class Exchange:
    """One request; its name is that of its file. A body of bytes is sent unchanged."""

    name: str
    path: str
    body: _Body | bytes | None = None
    answers: Answers = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    method: str = "POST"


MESSAGES: Final = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
TOOL: Final = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "maximum": 1.0}}}
SAMPLING: Final[_Body] = {"temperature": 0.5, "seed": 42}
JSON: Final = {"accept": "application/json"}
AZURE: Final = "?api-version=2024-05-01-preview"
KEY: Final = {"api-key": "k"}
PASS: Final = {"extra-parameters": "pass-through", **KEY}

# What a chat body has for each of the answers.
CHAT_FEATURES: Final[Mapping[str, _Body]] = {
    "text": {**SAMPLING, "max_tokens": 100, "stop": ["END"]},
    "reasoning": {"reasoning_effort": "low"},
    "tools": {"tools": [TOOL], "tool_choice": "auto"},
    "logprobs": {"logprobs": True, "top_logprobs": 1},
    "choices": {"n": 2},
}
COMPLETION_FEATURES: Final[Mapping[str, _Body]] = {
    "text": {"prompt": "hi", "suffix": "!", **SAMPLING},
    "logprobs": {"prompt": [3, 4], "echo": True, "logprobs": 1},
    "prompts": {"prompt": ["a", "b"], "n": 2},
}
USAGE: Final[_Body] = {"stream": True, "stream_options": {"include_usage": True}}
MODEL: Final[_Body] = {"model": "m"}
CHAT: Final[_Body] = {**MODEL, "messages": MESSAGES}
REFUSED: Final[Mapping[str, _Body | bytes]] = {  # by the gateway alone
    "malformed": b'{"model": "m", "messages": [',
    "missing": {"model": "m"},
    "unknown": {**CHAT, "wings": 2},
    "kind": {**CHAT, "temperature": "1"},
    "twice": b'{"model": "m", "model": "n", "messages": []}',
    "later": {**CHAT, "messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]},
}


@dataclass(frozen=True)
class ChatPath:
    """A path for chats: its whole and streamed requests, and the fields of each body."""

    name: str
    path: str
    body: _Body
    whole: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    def exchanges(self) -> Iterator[Exchange]:
        """Return exchanges for every feature, whole and streamed, for usage in a stream, and for every failure."""
        for feature, asked in CHAT_FEATURES.items():
            body = self.body | asked
            answers = {**said.CHATS[feature], **said.SERVED}
            yield Exchange(f"{self.name}_{feature}", self.path, body, answers, {**self.headers, **self.whole})
            streamed = body | {"stream": True}
            yield Exchange(f"{self.name}_{feature}_stream", self.path, streamed, answers, self.headers)
        usage = {**said.CHATS["text"], **said.SERVED}
        yield Exchange(f"{self.name}_usage_stream", self.path, self.body | USAGE, usage, self.headers)
        cut_off = {**said.CUT_OFF, **said.SERVED}
        yield Exchange(f"{self.name}_cut_off", self.path, self.body | {"stream": True}, cut_off, self.headers)
        for reason, status in said.STATUSES.items():
            yield Exchange(f"{self.name}_{reason}", self.path, self.body, said.refused(status), self.headers)
        for reason, bad in REFUSED.items():
            yield Exchange(f"{self.name}_{reason}", self.path, self._without_model(bad), {}, self.headers)

    def _without_model(self, body: _Body | bytes) -> _Body | bytes:
        """Return the body without a model's name if the path names it."""
        if isinstance(body, bytes) or "model" in self.body:
            return body
        return {name: value for name, value in body.items() if name != "model"}


CHAT_PATHS: Final = [
    ChatPath("openai_chat", "/v1/chat/completions", CHAT, headers={"authorization": "Bearer k"}),
    ChatPath("azure_chat", f"/chat/completions{AZURE}", CHAT, headers=PASS),
    ChatPath("databricks_chat", "/serving-endpoints/chat/completions", CHAT),
    ChatPath("invocation_chat", "/serving-endpoints/m/invocations", {"messages": MESSAGES}, JSON),
]
COMPLETION_PATHS: Final[list[tuple[str, str, _Body]]] = [
    ("openai_completion", "/v1/completions", MODEL),
    ("databricks_completion", "/serving-endpoints/completions", MODEL),
    ("invocation_completion", "/serving-endpoints/m/invocations", {}),
]
EMBEDDING_PATHS: Final[list[tuple[str, str, _Body, Mapping[str, str]]]] = [
    ("openai_embedding", "/v1/embeddings", MODEL, {}),
    ("azure_embedding", f"/embeddings{AZURE}", MODEL, KEY),
    ("databricks_embedding", "/serving-endpoints/embeddings", MODEL, {}),
    ("invocation_embedding", "/serving-endpoints/m/invocations", {}, {}),
]


def _messages() -> Iterator[Exchange]:
    """Return the exchanges of Anthropic's messages."""
    path, headers = "/v1/messages", {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    body = {**MODEL, "max_tokens": 100, "system": "Be brief.", "messages": MESSAGES[1:]}
    tool = {"name": "look", "input_schema": {"type": "object", "maximum": 1.0}}
    features: dict[str, _Body] = {
        "text": {"temperature": 0.5, "seed": 42, "stop_sequences": ["END"]},
        "reasoning": {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
        "tools": {"tools": [tool], "tool_choice": {"type": "auto"}},
    }
    for feature, asked in features.items():
        name, answers = f"anthropic_message_{feature}", said.CHATS[feature]
        yield Exchange(name, path, body | asked, answers, headers)
        yield Exchange(f"{name}_stream", path, body | asked | {"stream": True}, answers, headers)
    yield Exchange("anthropic_message_cut_off", path, body | {"stream": True}, said.CUT_OFF, headers)
    for reason, status in said.STATUSES.items():
        yield Exchange(f"anthropic_message_{reason}", path, body, said.refused(status), headers)
    yield Exchange("anthropic_message_missing", path, {**MODEL, "messages": MESSAGES[1:]}, {}, headers)
    yield Exchange("anthropic_message_thread", path, body | {"thread": {"type": "create"}}, {}, headers)
    counted = {name: value for name, value in body.items() if name != "max_tokens"}
    yield Exchange("anthropic_count", f"{path}/count_tokens", counted, said.COUNT, headers)
    yield Exchange("anthropic_models", "/v1/models?limit=1", None, said.MODELS, headers, method="GET")
    yield Exchange("anthropic_model", "/v1/models/m", None, said.MODELS, headers, method="GET")


def _cohere() -> Iterator[Exchange]:
    """Return the exchanges of Cohere's chats and embeddings."""
    body = {**MODEL, "messages": MESSAGES}
    features: dict[str, _Body] = {
        "text": {"temperature": 0.5, "seed": 42, "k": 0, "p": 0.5, "stop_sequences": ["END"]},
        "reasoning": {"thinking": {"type": "enabled", "token_budget": 9}},
        "tools": {"tools": [TOOL], "strict_tools": True, "tool_choice": "REQUIRED"},
        "logprobs": {"logprobs": True, "documents": ["a"], "response_format": {"type": "json_object"}},
    }
    for feature, asked in features.items():
        name, answers = f"cohere_chat_{feature}", said.CHATS[feature]
        yield Exchange(name, "/v2/chat", body | asked, answers)
        yield Exchange(f"{name}_stream", "/v2/chat", body | asked | {"stream": True}, answers)
    yield Exchange("cohere_chat_cut_off", "/v2/chat", body | {"stream": True}, said.CUT_OFF)
    for reason, status in said.STATUSES.items():
        yield Exchange(f"cohere_chat_{reason}", "/v2/chat", body, said.refused(status))
    texts = {**MODEL, "texts": ["a", "ä"], "input_type": "search_query", "output_dimension": 2}
    kinds = {"embedding_types": ["float", "int8", "ubinary", "base64"]}
    yield Exchange("cohere_embed", "/v2/embed", texts | kinds, said.VECTORS)
    yield Exchange("cohere_embed_missing", "/v2/embed", {**MODEL}, {})


def _completions() -> Iterator[Exchange]:
    for name, path, base in COMPLETION_PATHS:
        for feature, asked in COMPLETION_FEATURES.items():
            answers = said.COMPLETIONS[feature]
            yield Exchange(f"{name}_{feature}", path, base | asked | {"stream": False}, answers)
            yield Exchange(f"{name}_{feature}_stream", path, base | asked | USAGE, answers)
        yield Exchange(f"{name}_full", path, base | {"prompt": "hi"}, said.refused(said.FULL))
        yield Exchange(f"{name}_kind", path, base | {"prompt": 5})


def _embeddings() -> Iterator[Exchange]:
    for name, path, base, headers in EMBEDDING_PATHS:
        answers = {**said.VECTORS, **said.SERVED}
        body = base | {"input": ["a", "ä"], "dimensions": 2}
        yield Exchange(f"{name}_float", path, body, answers, headers)
        yield Exchange(f"{name}_base64", path, body | {"encoding_format": "base64"}, answers, headers)
        yield Exchange(f"{name}_nobody", path, body, said.refused(said.NOBODY), headers)
        yield Exchange(f"{name}_empty", path, base | {"input": {}}, answers, headers)


def _ranks() -> Iterator[Exchange]:
    rerank = {**MODEL, "query": "a", "documents": ["b", {"text": "c", "url": "d"}]}
    score = {**MODEL, "text_1": "a", "text_2": ["b", "c"]}
    for name, path, body in (
        ("rerank_v1", "/v1/rerank", rerank | {"top_n": 2}),
        ("rerank_v2", "/v2/rerank", rerank | {"return_documents": True, "max_tokens_per_doc": 9}),
        ("rerank", "/rerank", rerank),
        ("score_v1", "/v1/score", score),
        ("score", "/score", score | {"text_1": ["a", "d"], "truncate_prompt_tokens": -1}),
    ):
        yield Exchange(f"{name}_answer", path, body, said.RANKS)
        yield Exchange(f"{name}_nobody", path, body, said.refused(said.NOBODY))
        yield Exchange(f"{name}_kind", path, body | {"model": 5})


def _responses() -> Iterator[Exchange]:
    for name, path in (("openai_response", "/v1/responses"), ("databricks_response", "/serving-endpoints/responses")):
        body = {**MODEL, "input": "hi", "instructions": "Be brief.", "metadata": {"run": "7"}}
        streamed = body | {"stream": True}
        for recorded in ("text", "two_calls", "reasoning", "json", "cut_off"):
            yield Exchange(f"{name}_{recorded}", path, body, said.response(recorded))
            yield Exchange(f"{name}_{recorded}_stream", path, streamed, said.response(recorded))
        yield Exchange(f"{name}_fault", path, streamed, said.response("two_calls", said.FAULT))
        yield Exchange(f"{name}_full", path, body, said.refused(said.FULL))
        yield Exchange(f"{name}_unknown", path, body | {"wings": 2})


def _choices() -> Iterator[Exchange]:
    """Return the exchanges of Azure's requests without a model."""
    path, body = f"/models/chat/completions{AZURE}", {"messages": MESSAGES}
    answers = {**said.CHATS["text"], **said.SERVED}
    yield Exchange("azure_chosen", path, body, answers)
    yield Exchange("azure_dropped", path, body | {"wings": 2, "top_k": 5}, answers, {"extra-parameters": "drop"})
    yield Exchange("azure_extra", path, body | {"top_k": 5}, answers)
    yield Exchange("azure_range", path, body | {"response_format": {"type": "xml"}}, answers)


def _generations() -> Iterator[Exchange]:
    everything = {"details": True, "perf_stat": True, "do_sample": True, "seed": 42, "temperature": 0.5, "top_k": 10}
    details = {"id": "a1", "parameters": {"details": True}}
    whole, stream = "/v2/models/m/generate", "/v2/models/m/generate_stream"
    cases: list[tuple[str, str, _Body, Answers]] = [
        ("text", whole, {}, said.GENERATION),
        ("details", "/v2/models/m/versions/2/generate", details, said.STOPPED_GENERATION),
        ("everything", whole, {"parameters": everything}, {**said.GENERATION, **said.MODELS}),
        ("full", whole, {}, said.refused(said.FULL)),
        ("range", whole, {"parameters": {"temperature": 0}}, {}),
        ("stream_text", stream, {}, said.GENERATION),
        ("stream_details", "/v2/models/m/versions/2/generate_stream", details, said.STOPPED_GENERATION),
    ]
    for name, path, asked, answers in cases:
        yield Exchange(f"mindie_generate_{name}", path, {"text_input": "My name is"} | asked, answers)
    yield Exchange("mindie_generate_stream_cut_off", stream, {"text_input": "hi"}, said.CUT_OFF_GENERATION)


def _tokens() -> Iterator[Exchange]:
    chat = {**CHAT, "return_token_strs": True, "continue_final_message": False}
    yield Exchange("openai_tokenize_text", "/tokenize", {**MODEL, "prompt": "hi"}, said.TOKENS)
    yield Exchange("openai_tokenize_chat", "/v1/tokenize", chat, said.TOKENS)
    yield Exchange("openai_tokenize_unknown", "/tokenize", {**MODEL, "prompt": "hi", "wings": 2})
    yield Exchange("openai_detokenize_text", "/detokenize", {**MODEL, "tokens": [5, 6]}, said.TOKENS)
    yield Exchange("openai_input_tokens", "/v1/responses/input_tokens", {**MODEL, "input": "hi"}, said.TOKENS)


def _lookups() -> Iterator[Exchange]:
    for name, path, answers in (
        ("openai_models", "/v1/models", said.MODELS),
        ("openai_model", "/v1/models/m", said.MODELS),
        ("openai_usage", "/v1/usage", said.KEY_USAGE),
        ("openai_no_method", "/v1/responses", {}),
        ("azure_info", f"/info{AZURE}", said.ENDPOINTS),
        ("mindie_model", "/v2/models/m", said.MODELS),
        ("mindie_model_ready", "/v2/models/m/ready", said.MODELS),
    ):
        yield Exchange(name, path, None, answers, method="GET")


def _endpoints() -> Iterator[Exchange]:
    root = "/api/2.0/serving-endpoints"
    entities = [{"name": name, "entity_name": "m", "workload_size": "Small"} for name in ("one", "two")]
    shares = (("one", 90), ("two", 10))
    config = {
        "served_entities": entities,
        "traffic_config": {
            "routes": [{"served_model_name": name, "traffic_percentage": share} for name, share in shares]
        },
    }
    wrong = {**config, "traffic_config": {"routes": [{"served_model_name": "three", "traffic_percentage": 100}]}}
    asked: list[tuple[str, str, str, _Body | None]] = [
        ("list", "GET", root, None),
        ("get", "GET", f"{root}/ab", None),
        ("create", "POST", root, {"name": "ab", "config": config}),
        ("update", "PUT", f"{root}/ab/config", config),
        ("delete", "DELETE", f"{root}/ab", None),
    ]
    for name, method, path, body in asked:
        yield Exchange(f"endpoint_{name}", path, body, said.ENDPOINTS, method=method)
    yield Exchange("endpoint_wrong", root, {"name": "ab", "config": wrong})


ALL: Final = {
    exchange.name: exchange
    for exchange in (
        *(exchange for path in CHAT_PATHS for exchange in path.exchanges()),
        *_messages(),
        *_cohere(),
        *_completions(),
        *_embeddings(),
        *_ranks(),
        *_responses(),
        *_choices(),
        Exchange("deployment_chat", "/openai/deployments/m/chat/completions?api-version=2024-10-21",
                 {"model": "n", "messages": MESSAGES}, said.CHATS["text"], KEY),
        *_generations(),
        *_tokens(),
        *_lookups(),
        *_endpoints(),
    )
}  # fmt: skip

# What OpenAI's relatives tell as OpenAI does, and one version of a path as another: the beginnings of such exchanges'
# names, and of their originals'.
_RELATIVES: Final = {
    "azure_chat": "openai_chat",
    "azure_embedding": "openai_embedding",
    "databricks_chat": "openai_chat",
    "databricks_completion": "openai_completion",
    "databricks_embedding": "openai_embedding",
    "databricks_response": "openai_response",
    "invocation_chat": "openai_chat",
    "invocation_completion": "openai_completion",
    "invocation_embedding": "openai_embedding",
    "rerank_v1": "rerank",
    "rerank_v2": "rerank",
    "score_v1": "score",
}
_OWN: Final = {  # that are no relatives
    "invocation_chat_missing",  # the path's own words: a body without messages may be meant for another task
    "invocation_completion_prompts",  # `index` is the prompt's
    "invocation_completion_prompts_stream",
    "rerank_v1_answer",  # each version has its own shape
    "rerank_v2_answer",
    "score_v1_answer",  # asks for more
}
RELATED: Final = [
    (exchange, ALL[original + name.removeprefix(relative)])
    for name, exchange in ALL.items()
    for relative, original in _RELATIVES.items()
    if name.startswith(f"{relative}_") and name not in _OWN
]

# Those with a file: one a shape.
_RECORDED: Final = """
    openai_chat: text text_stream reasoning reasoning_stream tools tools_stream logprobs logprobs_stream choices_stream
        usage_stream cut_off full long missing kind
    anthropic_message: text text_stream reasoning reasoning_stream tools tools_stream cut_off full long nobody fault
        missing thread
    anthropic: count models model
    cohere_chat: text text_stream reasoning reasoning_stream tools tools_stream logprobs logprobs_stream
        cut_off full fault long nobody
    cohere: embed embed_missing
    openai_completion: text text_stream logprobs logprobs_stream
    openai_embedding: float base64
    rerank: v1_answer v2_answer answer nobody kind
    score: v1_answer answer
    openai_response: text text_stream two_calls two_calls_stream reasoning reasoning_stream cut_off_stream fault
    openai: models model usage no_method input_tokens
    openai_tokenize: text chat unknown
    openai_detokenize: text
    deployment: chat
    azure_chat: text_stream cut_off full long
    azure: chosen dropped extra range info
    databricks_chat: cut_off full
    invocation_chat: text
    invocation_completion: prompts prompts_stream
    mindie_generate: text everything details full range
    mindie_generate_stream: text details cut_off
    mindie: model model_ready
    endpoint: list get create update delete wrong
"""
EXCHANGES: Final = [
    ALL[f"{group}_{name}"]
    for group, names in re.findall(r"(\w+): ((?:\w+\s+)+)(?=\w+:|$)", _RECORDED)
    for name in names.split()
]
