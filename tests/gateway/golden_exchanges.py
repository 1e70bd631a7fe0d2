"""The golden exchanges: what is asked of every dialect, and what the service says to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.gateway import golden_answers as said
from tests.gateway.golden_service import Answers

_Body = dict[str, Any]


@dataclass(frozen=True)
class Exchange:
    """One request, by a name that is its file's. A body that is bytes is sent as it is."""

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
    """A path for chats: how it is asked whole and streamed, and what stands in each body."""

    name: str
    path: str
    body: _Body
    whole: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    def exchanges(self) -> Iterator[Exchange]:
        """Every feature both ways, usage on a stream, and every failure."""
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
        """The body as it is, or without a model's name where the path names it."""
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
    """Azure's callers need not name a model."""
    path, body = f"/models/chat/completions{AZURE}", {"messages": MESSAGES}
    answers = {**said.CHATS["text"], **said.SERVED}
    yield Exchange("azure_chosen", path, body, answers)
    yield Exchange("azure_deployment", path, body, answers, {"azureml-model-deployment": "m"})
    yield Exchange("azure_dropped", path, body | {"wings": 2, "top_k": 5}, answers, {"extra-parameters": "drop"})
    yield Exchange("azure_extra", path, body | {"top_k": 5}, answers)
    yield Exchange("azure_range", path, body | {"response_format": {"type": "xml"}}, answers)


def _deployments() -> Iterator[Exchange]:
    """OpenAI's Azure client names the model in the path."""
    root, query = "/openai/deployments/m", "?api-version=2024-10-21"
    chat, answers = {"model": "n", "messages": MESSAGES}, said.CHATS["text"]
    yield Exchange("deployment_chat", f"{root}/chat/completions{query}", chat, answers, KEY)
    yield Exchange("deployment_chat_stream", f"{root}/chat/completions{query}", chat | USAGE, answers, KEY)
    yield Exchange("deployment_completion", f"{root}/completions{query}", {"prompt": "hi"}, said.COMPLETIONS["text"])
    yield Exchange("deployment_embedding", f"{root}/embeddings{query}", {"input": ["a", "ä"]}, said.VECTORS)
    yield Exchange("deployment_missing", f"{root}/chat/completions", {})
    yield Exchange("deployment_nobody", f"{root}/completions", {"prompt": "hi"}, said.refused(said.NOBODY))


def _generations() -> Iterator[Exchange]:
    everything = {"details": True, "perf_stat": True, "do_sample": True, "seed": 42, "temperature": 0.5, "top_k": 10}
    cases: list[tuple[str, _Body, Answers]] = [
        ("text", {}, said.GENERATION),
        ("details", {"id": "a1", "parameters": {"details": True}}, said.STOPPED_GENERATION),
        ("perf_stat", {"parameters": {"perf_stat": True}}, said.GENERATION),
        ("everything", {"parameters": everything}, {**said.GENERATION, **said.MODELS}),
        ("full", {}, said.refused(said.FULL)),
        ("fault", {}, said.refused(said.FAULT)),
        ("nobody", {}, said.refused(said.NOBODY)),
        ("range", {"parameters": {"temperature": 0}}, {}),
        ("kind", {"parameters": {"top_p": "1"}}, {}),
        ("vocabulary", {"parameters": {"do_sample": True, "top_k": 1000}}, {**said.GENERATION, **said.MODELS}),
        ("unknown", {"wings": 2}, {}),
    ]
    for form in ("generate", "generate_stream"):
        for name, asked, answers in cases:
            path = f"/v2/models/m/versions/2/{form}" if name == "details" else f"/v2/models/m/{form}"
            yield Exchange(f"mindie_{form}_{name}", path, {"text_input": "My name is"} | asked, answers)
    path = "/v2/models/m/generate_stream"
    yield Exchange("mindie_generate_stream_cut_off", path, {"text_input": "hi"}, said.CUT_OFF_GENERATION)


def _lookups() -> Iterator[Exchange]:
    def get(name: str, path: str, answers: Answers) -> Exchange:
        return Exchange(name, path, None, answers, method="GET")

    missing = {"GetModel": [said.NOBODY], "GetEndpoint": [said.NOBODY]}
    yield get("openai_models", "/v1/models", said.MODELS)
    yield get("openai_model", "/v1/models/m", said.MODELS)
    yield get("openai_model_nobody", "/v1/models/x", missing)
    yield get("azure_info", f"/info{AZURE}", said.ENDPOINTS)
    yield get("azure_info_version", "/models/info", said.ENDPOINTS)
    yield get("mindie_model", "/v2/models/m", said.MODELS)
    yield get("mindie_model_version", "/v2/models/m/versions/3", said.MODELS)
    yield get("mindie_model_ready", "/v2/models/m/ready", said.MODELS)
    yield get("mindie_model_nobody", "/v2/models/x", missing)
    yield get("mindie_live", "/v2/health/live", {})
    for name, path in (("openai", "/v1/x"), ("azure", "/models/x"), ("databricks", "/api/2.0/x"), ("mindie", "/v2/x")):
        yield get(f"{name}_no_route", path, {})
    for name, path in (
        ("openai", "/v1/responses"),
        ("azure", "/embeddings"),
        ("databricks", "/serving-endpoints/m/invocations"),
        ("mindie", "/v2/models/m"),
    ):
        method = "DELETE" if name == "mindie" else "GET"
        yield Exchange(f"{name}_no_method", path, method=method)


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
    yield Exchange("endpoint_taken", root, {"name": "ab", "config": config}, said.refused(said.TAKEN))
    yield Exchange("endpoint_fixed", f"{root}/m", None, said.refused(said.FIXED), method="DELETE")
    yield Exchange("endpoint_nobody", f"{root}/x", None, said.refused(said.NOBODY), method="GET")
    yield Exchange("endpoint_wrong", root, {"name": "ab", "config": wrong})
    yield Exchange("endpoint_refused", root, {"name": "ab", "config": config, "rate_limits": []})


EXCHANGES: Final = [
    *(exchange for path in CHAT_PATHS for exchange in path.exchanges()),
    *_completions(),
    *_embeddings(),
    *_responses(),
    *_choices(),
    *_deployments(),
    *_generations(),
    *_lookups(),
    *_endpoints(),
]
