"""The golden exchanges of OpenAI's family of dialects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.gateway import golden_answers
from tests.gateway.golden_exchange import KEY, MESSAGES, MODEL, SAMPLING, TOOL, Body, Exchange

JSON: Final = {"accept": "application/json"}
AZURE: Final = "?api-version=2024-05-01-preview"
PASS: Final = {"extra-parameters": "pass-through", **KEY}

# What a chat body has for each of the answers.
CHAT_FEATURES: Final[Mapping[str, Body]] = {
    "text": {**SAMPLING, "max_tokens": 100, "stop": ["END"]},
    "reasoning": {"reasoning_effort": "low"},
    "tools": {"tools": [TOOL], "tool_choice": "auto"},
    "logprobs": {"logprobs": True, "top_logprobs": 1},
    "choices": {"n": 2},
}

COMPLETION_FEATURES: Final[Mapping[str, Body]] = {
    "text": {"prompt": "hi", "suffix": "!", **SAMPLING},
    "logprobs": {"prompt": [3, 4], "echo": True, "logprobs": 1},
    "prompts": {"prompt": ["a", "b"], "n": 2},
}

USAGE: Final[Body] = {"stream": True, "stream_options": {"include_usage": True}}
CHAT: Final[Body] = {**MODEL, "messages": MESSAGES}
REJECTED: Final[Mapping[str, Body | bytes]] = {  # by the gateway alone
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
    body: Body
    whole: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    def exchanges(self) -> Iterator[Exchange]:
        """Return exchanges for every feature, whole and streamed, for usage in a stream, and for every failure."""
        for feature, fields in CHAT_FEATURES.items():
            body = self.body | fields
            answers = {**golden_answers.CHATS[feature], **golden_answers.SERVED}
            yield Exchange(f"{self.name}_{feature}", self.path, body, answers, {**self.headers, **self.whole})
            streamed = body | {"stream": True}
            yield Exchange(f"{self.name}_{feature}_stream", self.path, streamed, answers, self.headers)
        usage = {**golden_answers.CHATS["text"], **golden_answers.SERVED}
        yield Exchange(f"{self.name}_usage_stream", self.path, self.body | USAGE, usage, self.headers)
        cut_off = {**golden_answers.CUT_OFF, **golden_answers.SERVED}
        yield Exchange(f"{self.name}_cut_off", self.path, self.body | {"stream": True}, cut_off, self.headers)
        for reason, status in golden_answers.STATUSES.items():
            yield Exchange(f"{self.name}_{reason}", self.path, self.body, golden_answers.refused(status), self.headers)
        for reason, bad in REJECTED.items():
            yield Exchange(f"{self.name}_{reason}", self.path, self._without_model(bad), {}, self.headers)

    def _without_model(self, body: Body | bytes) -> Body | bytes:
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

COMPLETION_PATHS: Final[list[tuple[str, str, Body]]] = [
    ("openai_completion", "/v1/completions", MODEL),
    ("databricks_completion", "/serving-endpoints/completions", MODEL),
    ("invocation_completion", "/serving-endpoints/m/invocations", {}),
]

EMBEDDING_PATHS: Final[list[tuple[str, str, Body, Mapping[str, str]]]] = [
    ("openai_embedding", "/v1/embeddings", MODEL, {}),
    ("azure_embedding", f"/embeddings{AZURE}", MODEL, KEY),
    ("databricks_embedding", "/serving-endpoints/embeddings", MODEL, {}),
    ("invocation_embedding", "/serving-endpoints/m/invocations", {}, {}),
]


def _completions() -> Iterator[Exchange]:
    for name, path, base in COMPLETION_PATHS:
        for feature, fields in COMPLETION_FEATURES.items():
            answers = golden_answers.COMPLETIONS[feature]
            yield Exchange(f"{name}_{feature}", path, base | fields | {"stream": False}, answers)
            yield Exchange(f"{name}_{feature}_stream", path, base | fields | USAGE, answers)
        yield Exchange(f"{name}_full", path, base | {"prompt": "hi"}, golden_answers.refused(golden_answers.FULL))
        yield Exchange(f"{name}_kind", path, base | {"prompt": 5})


def _embeddings() -> Iterator[Exchange]:
    for name, path, base, headers in EMBEDDING_PATHS:
        answers = {**golden_answers.VECTORS, **golden_answers.SERVED}
        body = base | {"input": ["a", "ä"], "dimensions": 2}
        yield Exchange(f"{name}_float", path, body, answers, headers)
        yield Exchange(f"{name}_base64", path, body | {"encoding_format": "base64"}, answers, headers)
        yield Exchange(f"{name}_nobody", path, body, golden_answers.refused(golden_answers.NOBODY), headers)
        yield Exchange(f"{name}_empty", path, base | {"input": {}}, answers, headers)


def _responses() -> Iterator[Exchange]:
    for name, path in (("openai_response", "/v1/responses"), ("databricks_response", "/serving-endpoints/responses")):
        body = {**MODEL, "input": "hi", "instructions": "Be brief.", "metadata": {"run": "7"}}
        streamed = body | {"stream": True}
        for recorded in ("text", "two_calls", "reasoning", "json", "cut_off"):
            yield Exchange(f"{name}_{recorded}", path, body, golden_answers.response(recorded))
            yield Exchange(f"{name}_{recorded}_stream", path, streamed, golden_answers.response(recorded))
        yield Exchange(f"{name}_fault", path, streamed, golden_answers.response("two_calls", golden_answers.FAULT))
        yield Exchange(f"{name}_full", path, body, golden_answers.refused(golden_answers.FULL))
        yield Exchange(f"{name}_unknown", path, body | {"wings": 2})


def _choices() -> Iterator[Exchange]:
    """Return the exchanges of Azure's requests without a model."""
    path, body = f"/models/chat/completions{AZURE}", {"messages": MESSAGES}
    answers = {**golden_answers.CHATS["text"], **golden_answers.SERVED}
    yield Exchange("azure_chosen", path, body, answers)
    yield Exchange("azure_dropped", path, body | {"wings": 2, "top_k": 5}, answers, {"extra-parameters": "drop"})
    yield Exchange("azure_extra", path, body | {"top_k": 5}, answers)
    yield Exchange("azure_range", path, body | {"response_format": {"type": "xml"}}, answers)


def _tokens() -> Iterator[Exchange]:
    chat = {**CHAT, "return_token_strs": True, "continue_final_message": False}
    yield Exchange("openai_tokenize_text", "/tokenize", {**MODEL, "prompt": "hi"}, golden_answers.TOKENS)
    yield Exchange("openai_tokenize_chat", "/v1/tokenize", chat, golden_answers.TOKENS)
    yield Exchange("openai_tokenize_unknown", "/tokenize", {**MODEL, "prompt": "hi", "wings": 2})
    yield Exchange("openai_detokenize_text", "/detokenize", {**MODEL, "tokens": [5, 6]}, golden_answers.TOKENS)
    yield Exchange("openai_input_tokens", "/v1/responses/input_tokens", {**MODEL, "input": "hi"}, golden_answers.TOKENS)


def _progress() -> Iterator[Exchange]:
    """Return streams with the progress of their prompts."""
    for name, path, body, answers in (
        ("openai_chat", "/v1/chat/completions", CHAT, golden_answers.CHAT_WITH_PROGRESS),
        ("openai_completion", "/v1/completions", MODEL | {"prompt": "hi"}, golden_answers.COMPLETION_WITH_PROGRESS),
    ):
        yield Exchange(f"{name}_progress_stream", path, body | USAGE | {"return_progress": True}, answers)


def openai_exchanges() -> Iterator[Exchange]:
    """Yield all exchanges of the family."""
    for path in CHAT_PATHS:
        yield from path.exchanges()
    yield from _completions()
    yield from _embeddings()
    yield from _responses()
    yield from _choices()
    yield from _tokens()
    yield from _progress()
    deployment = "/openai/deployments/m/chat/completions?api-version=2024-10-21"
    body = {"model": "n", "messages": MESSAGES}
    yield Exchange("deployment_chat", deployment, body, golden_answers.CHATS["text"], KEY)
