"""Ollama's dialect: wrong values are rejected where they have no effect, as they are in other requests."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from gateway.dialects.ollama.chat import OllamaChatTranslator
from gateway.dialects.ollama.embedding import OllamaEmbeddingTranslator, OllamaEmbedTranslator
from gateway.dialects.seam.failure import Reason
from tests.gateway.dialects.ollama.ollama_requests import USER, chat, generate, http, violation


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"options": {"frequency_penalty": -2.5}}, "options.frequency_penalty"),
        ({"options": {"repeat_penalty": 0}}, "options.repeat_penalty"),
        ({"options": {"stop": ["a", ""]}}, "options.stop.1"),
        ({"slo_token_seconds": 3601}, "slo_token_seconds"),
        ({"priority": 101}, "priority"),
    ],
)
def test_wrong_values_are_rejected_where_they_have_no_effect(fields: dict[str, Any], name: str) -> None:
    """A request that only loads a model, and one for vectors, names the field as an answer's request does."""
    calls = [lambda: generate(**fields), lambda: OllamaChatTranslator().parse(http(**fields))]
    if name != "slo_token_seconds":  # no field of embeddings
        calls.append(lambda: OllamaEmbedTranslator().parse(http(**fields)))
    if "options" in fields:
        calls.append(lambda: OllamaEmbedTranslator().parse(http(input="a", **fields)))
        calls.append(lambda: OllamaEmbeddingTranslator().parse(http(prompt="a", **fields)))
    for call in calls:
        assert violation(call) == (Reason.INVALID_FIELD, name)


def test_wrong_tools_and_ids_are_rejected_where_they_have_no_effect() -> None:
    """The tools of a request that only loads a model, and the id of a message that is no result."""
    for name in ("", "a b"):
        tools = [{"function": {"name": name}}]
        load = http(tools=tools)
        assert violation(partial(OllamaChatTranslator().parse, load)) == (
            Reason.INVALID_FIELD,
            "tools.0.function.name",
        )
    wrong = {**USER, "tool_call_id": "a" * 300}
    assert violation(lambda: chat(wrong)) == (Reason.INVALID_FIELD, "messages.0.tool_call_id")
