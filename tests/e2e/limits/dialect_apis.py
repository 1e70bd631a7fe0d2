"""A generating API of each dialect, with its error for a rate limit; and a product with keys and a Redis."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.e2e.stack import Stack
from tests.redis_server import RedisServer
from tests.waiting import GUARD_S, wait_until

MODEL = "sluice-demo"
SCOPES = ["generate", "embed", "tokenize", "endpoints:read"]
HELLO = [{"role": "user", "content": "Hello!"}]


@dataclass(frozen=True)
class DialectApi:
    """A generating API of one dialect: its request, and its error body for a rate limit."""

    path: str
    body: dict[str, Any]
    error_body: dict[str, Any]
    max_tokens: tuple[str, ...]
    too_large: int = 400
    headers: dict[str, str] = field(default_factory=dict)
    is_streamed: bool = False
    left: str = "x-ratelimit-remaining-requests"

    @property
    def key_id(self) -> str:
        """The id of the API's own key."""
        return "api" + "".join(filter(str.isalnum, self.path))[-24:]

    def with_max_tokens(self, number: int) -> dict[str, Any]:
        """Return the body with this token limit."""
        *parents, name = self.max_tokens
        body: dict[str, Any] = {**self.body}
        inner = body
        for parent in parents:
            inner[parent] = {**inner.get(parent, {})}
            inner = inner[parent]
        inner[name] = number
        return body


OPENAI = {"error": {"type": "requests", "code": "rate_limit_exceeded", "param": None}}
AZURE = {"error": "Too Many Requests", "status": 429}
PASS = {"extra-parameters": "pass-through"}
DIALECT_APIS = [
    DialectApi("/v1/chat/completions", {"model": MODEL, "messages": HELLO}, OPENAI, ("max_completion_tokens",)),
    DialectApi(
        "/v1/completions",
        {"model": MODEL, "prompt": "Hello", "stream": True},
        OPENAI,
        ("max_tokens",),
        is_streamed=True,
    ),
    DialectApi(
        "/v1/responses",
        {"model": MODEL, "input": "Hello", "stream": True},
        OPENAI,
        ("max_output_tokens",),
        is_streamed=True,
    ),
    DialectApi(
        f"/serving-endpoints/{MODEL}/invocations",
        {"messages": HELLO, "stream": False},
        {"error_code": "REQUEST_LIMIT_EXCEEDED"},
        ("max_tokens",),
    ),
    DialectApi(
        "/chat/completions?api-version=2024-05-01-preview",
        {"model": MODEL, "messages": HELLO},
        AZURE,
        ("max_tokens",),
        too_large=422,
    ),
    DialectApi(
        "/v1/messages",
        {"model": MODEL, "messages": HELLO, "max_tokens": 2},
        {"type": "error", "error": {"type": "rate_limit_error"}},
        ("max_tokens",),
        left="anthropic-ratelimit-requests-remaining",
    ),
    DialectApi("/v2/chat", {"model": MODEL, "messages": HELLO}, {}, ("max_tokens",)),
    DialectApi("/api/chat", {"model": MODEL, "messages": HELLO, "stream": False}, {}, ("options", "num_predict")),
    DialectApi(
        f"/v2/models/{MODEL}/generate",
        {"text_input": "Hello"},
        {"error_type": "overloaded"},
        ("parameters", "max_new_tokens"),
    ),
]


class Guarded:
    """The product with keys and a Redis."""

    def __init__(self, stack: Stack, redis: RedisServer, keys: dict[str, str]) -> None:
        self.stack = stack
        self.redis = redis
        self.keys = keys

    def post(self, key_id: str, path: str, body: dict[str, Any]) -> httpx.Response:
        """Send a request with a key."""
        return httpx.post(self.stack.url + path, json=body, headers=self.bearing(key_id), timeout=GUARD_S)

    def bearing(self, key_id: str) -> dict[str, str]:
        """Return the header with the key."""
        return {"authorization": f"Bearer {self.keys[key_id]}"}

    def until(self, name: str, value: float) -> None:
        """Return when the service's metric has the value."""
        wait_until(lambda: self.stack.metric(name) == value, lambda: f"{name} is {self.stack.metric(name)}")
