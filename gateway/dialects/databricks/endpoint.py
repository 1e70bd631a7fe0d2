"""Convert the contract's endpoints to the JSON of Databricks' REST API.

A listed endpoint is always ready and up to date, because changes take effect at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import orjson
from sluice.v1 import model_pb2
from sluice.v1.endpoint_pb2 import Endpoint, ServedEntity

DELETED: Final = b"{}"

_TASKS: Final = {
    model_pb2.TASK_CHAT: "llm/v1/chat",
    model_pb2.TASK_COMPLETION: "llm/v1/completions",
    model_pb2.TASK_EMBEDDING: "llm/v1/embeddings",
    model_pb2.TASK_RANK: "llm/v1/rerank",
}


def to_endpoint_list(endpoints: Iterable[Endpoint]) -> bytes:
    """Return the body of `GET /api/2.0/serving-endpoints`."""
    return orjson.dumps(
        {
            "endpoints": [
                _to_summary(each) | {"config": {"served_entities": [_to_entity(entity) for entity in each.entities]}}
                for each in endpoints
            ]
        }
    )


def to_endpoint(endpoint: Endpoint) -> bytes:
    """Return the body of `GET /api/2.0/serving-endpoints/{name}`, and of the answer to creating or changing it."""
    state = {
        "creation_timestamp": endpoint.updated.ToMilliseconds(),
        "state": {"deployment": "DEPLOYMENT_READY", "deployment_state_message": ""},
    }
    config = {
        "served_entities": [_to_entity(entity) | state for entity in endpoint.entities],
        "traffic_config": {"routes": [_to_route(entity) for entity in endpoint.entities]},
        "config_version": endpoint.config_version,
    }
    return orjson.dumps(_to_summary(endpoint) | {"config": config})


def _to_summary(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "name": endpoint.name,
        "id": endpoint.name,
        "task": _TASKS[endpoint.task],
        "state": {"ready": "READY", "config_update": "NOT_UPDATING"},
        "creation_timestamp": endpoint.created.ToMilliseconds(),
        "last_updated_timestamp": endpoint.updated.ToMilliseconds(),
        "permission_level": "CAN_QUERY" if endpoint.is_model else "CAN_MANAGE",
    }


def _to_entity(entity: ServedEntity) -> dict[str, Any]:
    return {"name": entity.name, "entity_name": entity.model, "foundation_model": {"name": entity.model}}


def _to_route(entity: ServedEntity) -> dict[str, Any]:
    return {
        "served_entity_name": entity.name,
        "served_model_name": entity.name,
        "traffic_percentage": entity.traffic_percentage,
    }
