"""Large requests are served completely, and too large ones are rejected before they are parsed."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.e2e.stack import Stack
from tests.waiting import GUARD_S

CHAT = {"model": "sluice-demo", "messages": [{"role": "user", "content": "Tell me a story."}]}
LARGEST: dict[str, Any] = {"n": 64, "max_tokens": 200, "ignore_eos": True, "logprobs": True, "top_logprobs": 20}


def test_large_answer_is_valid_and_the_gateway_stays_healthy(stack: Stack) -> None:
    """A response of more than 10 MB is valid JSON, and the gateway stays healthy."""
    answer = httpx.post(f"{stack.url}/v1/chat/completions", json=CHAT | LARGEST, timeout=GUARD_S)
    assert answer.status_code == 200
    choices = answer.json()["choices"]
    tokens = [token for choice in choices for token in choice["logprobs"]["content"]]  # without hidden tokens
    assert len(choices) == LARGEST["n"]
    assert len(tokens) > 6_000
    assert {len(token["top_logprobs"]) for token in tokens} == {LARGEST["top_logprobs"]}
    assert httpx.get(f"{stack.url}/healthz", timeout=GUARD_S).is_success


@pytest.mark.parametrize(
    "body",
    [
        {**CHAT, "logit_bias": {str(key): 0 for key in range(450_000)}},
        {**CHAT, "metadata": {str(key): "" for key in range(200_000)}},
    ],
    ids=["logit bias", "metadata"],
)
def test_objects_with_too_many_keys_are_rejected_before_parsing(stack: Stack, body: dict[str, Any]) -> None:
    answer = httpx.post(f"{stack.url}/v1/chat/completions", json=body, timeout=GUARD_S)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "the body has more than 100000 keys"


def test_colons_in_a_text_do_not_count_as_keys(stack: Stack) -> None:
    """Colons within a text do not count as keys, even if the text is JSON."""
    text = json.dumps({str(key): 0 for key in range(150_000)})
    answer = httpx.post(f"{stack.url}/v1/completions", json={"model": "sluice-demo", "prompt": text}, timeout=GUARD_S)
    assert answer.status_code == 400
    assert "tokens; the limit is" in answer.json()["error"]["message"]
