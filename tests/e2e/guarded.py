"""A product that requires API keys, and the keys of several teams."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.command import sluice
from tests.e2e.stack import Stack
from tests.waiting import GUARD_S

MODEL, HIDDEN, NOBODYS = "sluice-demo", "all-minilm-l6-v2", "nobodys-minilm-0"


MESSAGES = [{"role": "user", "content": "Hello!"}]


AZURE = "?api-version=2024-05-01-preview"
CHAT_PATH = "/v1/chat/completions"
CHAT = {"model": MODEL, "messages": MESSAGES, "max_tokens": 4}


@dataclass
class Guarded:
    """A running product that requires API keys."""

    stack: Stack
    path: Path
    keys: dict[str, str]

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.stack.ports['envoy']}"

    def post(self, path: str, body: dict[str, Any], **headers: str) -> httpx.Response:
        """Send a body and return the response."""
        return httpx.post(self.base + path, json=body, headers=headers, timeout=GUARD_S)

    def get(self, path: str, key: str) -> httpx.Response:
        """Send a GET request with a key and return the response."""
        return httpx.get(self.base + path, headers={"authorization": f"Bearer {key}"}, timeout=GUARD_S)

    def command(self, *arguments: str) -> Any:
        """Run `sluice keys` and return its JSON."""
        done = sluice("keys", *arguments, "--file", str(self.path), "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def error_body(answer: httpx.Response) -> dict[str, Any]:
    """Return an error's body without the request id, which Anthropic's and Cohere's have."""
    return {name: value for name, value in answer.json().items() if name not in {"id", "request_id"}}
