"""The description of a model in the Azure AI model inference API."""

from __future__ import annotations

from typing import Final

import orjson
from sluice.v1.endpoint_pb2 import Endpoint
from sluice.v1.model_pb2 import TASK_CHAT, TASK_COMPLETION, TASK_EMBEDDING, TASK_RANK

_TYPES: Final = {  # a task of the contract → `model_type`
    TASK_CHAT: "chat_completion",
    TASK_COMPLETION: "text_generation",
    TASK_EMBEDDING: "embeddings",
    TASK_RANK: "rerank",
}


def to_info(endpoint: Endpoint) -> bytes:
    """Return the body of `GET /info`."""
    return orjson.dumps(
        {"model_name": endpoint.name, "model_type": _TYPES[endpoint.task], "model_provider_name": "sluice"}
    )
