"""The bundled model's own sampling parameters are the defaults of a request, over gRPC and REST."""

from __future__ import annotations

import httpx
import sluice_client

from tests.e2e.stack import Stack
from tests.waiting import GUARD_S


def test_stream_echoes_the_models_sampling_defaults(stack: Stack) -> None:
    """A given value overrides the model's per field, even if it is the contract's default."""
    with sluice_client.Client(f"127.0.0.1:{stack.ports['envoy']}") as client:
        drawn = next(client.stream_chat("Hello there!", max_tokens=1)).started.sampling
        assert (round(drawn.temperature, 3), round(drawn.top_p, 3)) == (0.3, 0.9)
        given = next(client.stream_chat("Hello there!", max_tokens=1, temperature=1.0)).started.sampling
        assert (given.temperature, round(given.top_p, 3)) == (1.0, 0.9)


def test_dialects_with_documented_defaults_use_them(stack: Stack) -> None:
    """An omitted parameter is the model's in the OpenAI style, and 1 in Databricks', which documents it."""
    body = {"model": "sluice-demo", "input": "Hello there!", "max_output_tokens": 1}
    for base, expected in (("/v1", [0.3, 0.9]), ("/serving-endpoints", [1.0, 1.0])):
        answer = httpx.post(f"{stack.url}{base}/responses", json=body, timeout=GUARD_S).json()
        assert [answer["temperature"], answer["top_p"]] == expected


def test_request_without_parameters_is_answered_correctly(stack: Stack) -> None:
    """A request without parameters is answered: at a temperature of 1 one answer in four would be a refusal."""
    body = {
        "model": "sluice-demo",
        "messages": [{"role": "user", "content": "What is the capital of France?"}],
        "n": 40,
    }
    answer = httpx.post(f"{stack.url}/v1/chat/completions", json=body, timeout=GUARD_S).json()
    texts = [choice["message"]["content"] for choice in answer["choices"]]
    assert sum("Paris" in text for text in texts) == 40
