"""mlflow's client for deployments on Databricks, which accepts anything and sends `stream` only for streams."""

import os
from typing import Any

from mlflow.deployments import get_deploy_client

MODEL = "sluice-demo"
EMBEDDER = "all-minilm-l6-v2"
CHAT: Any = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "temperature": 0}


def client(url: str) -> Any:
    """A client, configured as its documentation shows."""
    os.environ |= {"DATABRICKS_HOST": url, "DATABRICKS_TOKEN": "unused"}
    return get_deploy_client("databricks")


def check_predict_stream_equals_predict(url: str, _: str) -> None:
    """`predict` returns JSON, and `predict_stream` the same text in pieces."""
    whole = client(url).predict(endpoint=MODEL, inputs=CHAT)["choices"][0]["message"]["content"]
    chunks = list(client(url).predict_stream(endpoint=MODEL, inputs=CHAT))
    assert whole
    assert "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks) == whole


def check_other_tasks(url: str, _: str) -> None:
    """Completions and embeddings are not streamed."""
    answer = client(url).predict(endpoint=MODEL, inputs={"prompt": ["One, two,", "Red, green,"], "max_tokens": 4})
    assert [choice["index"] for choice in answer["choices"]] == [0, 1]
    answer = client(url).predict(endpoint=EMBEDDER, inputs={"input": ["a cat"]})
    assert len(answer["data"][0]["embedding"]) == 384


def check_endpoints(url: str, _: str) -> None:
    """Endpoints are listed, under a path with a trailing slash, and described."""
    assert {MODEL, EMBEDDER} <= {endpoint["name"] for endpoint in client(url).list_endpoints()}
    assert client(url).get_endpoint(MODEL)["name"] == MODEL
