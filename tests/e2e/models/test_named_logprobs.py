"""`logprob_token_ids`: the logprobs of given tokens, however likely they are."""

from __future__ import annotations

from typing import Any, Final

import httpx
import pytest

from tests.e2e.stack import Stack
from tests.waiting import GUARD_S

BODY: Final[dict[str, Any]] = {
    "model": "sluice-demo", "temperature": 0, "max_tokens": 3, "messages": [{"role": "user", "content": "hi"}],
    "logprobs": True, "top_logprobs": 20,
}  # fmt: skip


def test_requested_tokens_follow_the_most_likely_ones(stack: Stack) -> None:
    """A token among the most likely ones is listed once, with the same logprob; others follow in their order."""
    plain = httpx.post(f"{stack.url}/v1/chat/completions", json=BODY, timeout=GUARD_S).json()
    (likely, *_) = plain["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    tokens = httpx.post(f"{stack.url}/tokenize", json={"prompt": likely["token"], "add_special_tokens": False}).json()
    ids = [tokens["tokens"][-1], 300, 301]
    body = BODY | {"top_logprobs": 1, "logprob_token_ids": ids}
    answer = httpx.post(f"{stack.url}/v1/chat/completions", json=body, timeout=GUARD_S).json()
    entries = answer["choices"][0]["logprobs"]["content"]
    assert [len(each["top_logprobs"]) for each in entries[:1]] == [3]
    first = entries[0]["top_logprobs"]
    assert first[0] == likely
    texts = httpx.post(f"{stack.url}/detokenize", json={"tokens": ids[1:]}, timeout=GUARD_S).json()["prompt"]
    assert "".join(each["token"] for each in first[1:]) == texts
    assert all(each["logprob"] < likely["logprob"] for each in first[1:])


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"logprob_token_ids": [10**6]}, "logprob_token_ids.0: "),
        ({"logprob_token_ids": [-1]}, "logprob_token_ids.0: must be from 0 to 4294967295"),
        ({"logprob_token_ids": [1] * 21}, "logprob_token_ids: must have at most 20 items"),
        ({"logprob_token_ids": [1], "logprobs": False, "top_logprobs": None}, "logprob_token_ids: only allowed with"),
    ],
)
def test_invalid_logprob_token_ids_are_rejected_by_name(stack: Stack, fields: dict[str, Any], text: str) -> None:
    """Unknown tokens, too many of them, and tokens without logprobs are rejected by name."""
    answer = httpx.post(f"{stack.url}/v1/chat/completions", json=BODY | fields, timeout=GUARD_S)
    assert (answer.status_code, text in answer.json()["error"]["message"]) == (400, True), answer.text
