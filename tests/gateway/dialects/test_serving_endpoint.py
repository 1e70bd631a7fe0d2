"""Bodies of Databricks' REST API become the contract's requests for endpoints, and endpoints its JSON."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from sluice.v1 import model_pb2
from sluice.v1.endpoint_pb2 import CreateEndpointRequest, Endpoint, ServedEntity, UpdateEndpointRequest

from gateway.dialects.databricks.endpoint import to_endpoint, to_endpoint_list
from gateway.dialects.databricks.endpoint_body import EndpointBody
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.json_body import decode

A = {"name": "a", "entity_name": "m"}
B = {"name": "b", "entity_name": "org/n"}
HALVES = [{"served_model_name": "a", "traffic_percentage": 50}, {"served_entity_name": "b", "traffic_percentage": 50}]
BOTH = {"served_entities": [A, B], "traffic_config": {"routes": HALVES}}


def read(config: dict[str, Any], **fields: Any) -> EndpointBody:
    """Return the body of a request that creates the endpoint `e`."""
    body = {"name": "e", "config": config, **fields}
    return decode(json.dumps(body).encode(), msgspec.json.Decoder(EndpointBody))


def test_create_and_update() -> None:
    """Routes set their entities' shares under both names; an update replaces all entities."""
    entities = [
        ServedEntity(name="a", model="m", traffic_percentage=50),
        ServedEntity(name="b", model="org/n", traffic_percentage=50),
    ]
    body = read(BOTH)
    assert body.to_create() == CreateEndpointRequest(name="e", entities=entities)
    assert body.config.to_update("e") == UpdateEndpointRequest(name="e", entities=entities)


def test_single_entity_gets_all_traffic() -> None:
    """A single entity needs no route and no name: its name is derived from the model's."""
    (entity,) = read({"served_entities": [{"entity_name": "org/n"}]}).to_create().entities
    assert entity == ServedEntity(name="org-n", model="org/n", traffic_percentage=100)


def test_entity_without_a_route_gets_no_traffic() -> None:
    """Shares are copied; the service checks whether they add up."""
    routes = [{"served_model_name": "b", "traffic_percentage": 90}]
    entities = read({"served_entities": [A, B], "traffic_config": {"routes": routes}}).to_create().entities
    assert [entity.traffic_percentage for entity in entities] == [0, 90]


def test_fields_without_effect() -> None:
    """Fields about sizes and descriptions are accepted without effect."""
    sized = {
        "entity_version": "1", "workload_size": "Small", "workload_type": "CPU", "scale_to_zero_enabled": True,
        "burst_scaling_enabled": False, "min_provisioned_throughput": 0, "max_provisioned_throughput": 100,
        "min_provisioned_concurrency": 4, "max_provisioned_concurrency": 8, "provisioned_model_units": 50,
        "environment_vars": None, "external_model": None,
    }  # fmt: skip
    described = {
        "description": "d", "tags": [{"key": "k", "value": "v"}], "budget_policy_id": "b", "route_optimized": True,
        "rate_limits": None,
    }  # fmt: skip
    body = read({**BOTH, "name": "e", "served_entities": [A | sized, B]}, **described)
    assert body.to_create() == read(BOTH).to_create()


@pytest.mark.parametrize(
    ("config", "fields", "name", "reason"),
    [
        ({"served_entities": [A | {"external_model": {"name": "x"}}]}, {}, "config.served_entities.0.external_model",
         Reason.UNSUPPORTED_FIELD),
        ({"served_entities": [A | {"environment_vars": {"K": "v"}}]}, {}, "config.served_entities.0.environment_vars",
         Reason.UNSUPPORTED_FIELD),
        (BOTH | {"auto_capture_config": {}}, {}, "config.auto_capture_config", Reason.UNSUPPORTED_FIELD),
        (BOTH | {"name": "f"}, {}, "config.name", Reason.INVALID_FIELD),
        (BOTH, {"rate_limits": [{"calls": 1}]}, "rate_limits", Reason.UNSUPPORTED_FIELD),
        (BOTH, {"ai_gateway": {}}, "ai_gateway", Reason.UNSUPPORTED_FIELD),
        (BOTH, {"email_notifications": {}}, "email_notifications", Reason.UNSUPPORTED_FIELD),
        (BOTH, {"color": "red"}, "color", Reason.UNKNOWN_FIELD),
        ({"served_entities": [{"name": "a"}]}, {}, "config.served_entities.0.entity_name", Reason.MISSING_FIELD),
        ({"served_entities": [A, B]}, {}, "config.traffic_config.routes", Reason.MISSING_FIELD),
        (BOTH | {"traffic_config": {"routes": [{"traffic_percentage": 100}]}}, {},
         "config.traffic_config.routes.0.served_entity_name", Reason.MISSING_FIELD),
        (BOTH | {"traffic_config": {"routes": [HALVES[0], HALVES[0]]}}, {},
         "config.traffic_config.routes.1.served_entity_name", Reason.INVALID_FIELD),
        (BOTH | {"traffic_config": {"routes": [{"served_entity_name": "a", "traffic_percentage": -1}]}}, {},
         "config.traffic_config.routes.0.traffic_percentage", Reason.INVALID_FIELD),
        ({"served_entities": [A] * 17}, {}, "config.served_entities", Reason.INVALID_FIELD),
    ],
)  # fmt: skip
def test_bad_body(config: dict[str, Any], fields: dict[str, Any], name: str, reason: Reason) -> None:
    """Unsupported or invalid fields are rejected with their path."""
    with pytest.raises(Failure) as caught:
        read(config, **fields).to_create()
    assert (caught.value.status, caught.value.field, caught.value.reason) == (400, name, reason)


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("name", "name"),
        ("entities", "config.served_entities"),
        ("entities[1]", "config.served_entities.1"),
        ("entities[1].name", "config.served_entities.1.name"),
        ("entities[1].model", "config.served_entities.1.entity_name"),
        ("entities[1].traffic_percentage", "config.traffic_config.routes.0.traffic_percentage"),
    ],
)
def test_caller_names(field: str, name: str) -> None:
    """The contract's field names are mapped to the caller's: a share's is that of its route."""
    body = read({"served_entities": [A, B], "traffic_config": {"routes": HALVES[::-1]}})
    assert body.caller_name(field) == name
    assert body.config.caller_name(field) == name.removeprefix("config.")


def test_json() -> None:
    """An endpoint's JSON has task, state, times in milliseconds, entities and their shares."""
    endpoint = Endpoint(
        name="e",
        task=model_pb2.TASK_CHAT,
        entities=[ServedEntity(name="a", model="m", traffic_percentage=100)],
        created=Timestamp(seconds=1_700_000_000, nanos=5_000_000),
        updated=Timestamp(seconds=1_700_000_001),
        config_version=3,
    )
    entity = {"name": "a", "entity_name": "m", "foundation_model": {"name": "m"}}
    shared = {
        "name": "e",
        "id": "e",
        "task": "llm/v1/chat",
        "state": {"ready": "READY", "config_update": "NOT_UPDATING"},
        "creation_timestamp": 1_700_000_000_005,
        "last_updated_timestamp": 1_700_000_001_000,
        "permission_level": "CAN_MANAGE",
    }
    state = {"deployment": "DEPLOYMENT_READY", "deployment_state_message": ""}
    route = {"served_entity_name": "a", "served_model_name": "a", "traffic_percentage": 100}
    assert json.loads(to_endpoint(endpoint)) == shared | {
        "config": {
            "served_entities": [entity | {"creation_timestamp": 1_700_000_001_000, "state": state}],
            "traffic_config": {"routes": [route]},
            "config_version": 3,
        }
    }
    listed = json.loads(to_endpoint_list([endpoint]))
    assert listed == {"endpoints": [shared | {"config": {"served_entities": [entity]}}]}


@pytest.mark.parametrize("is_model", [False, True])
@pytest.mark.parametrize(
    ("task", "name"),
    [
        (model_pb2.TASK_CHAT, "llm/v1/chat"),
        (model_pb2.TASK_COMPLETION, "llm/v1/completions"),
        (model_pb2.TASK_EMBEDDING, "llm/v1/embeddings"),
    ],
)
def test_task_and_permission(task: model_pb2.Task, name: str, *, is_model: bool) -> None:
    """Each task has Databricks' name; a model's own endpoint can be queried but not managed."""
    body = json.loads(to_endpoint(Endpoint(name="e", task=task, is_model=is_model)))
    assert body["task"] == name
    assert body["permission_level"] == ("CAN_QUERY" if is_model else "CAN_MANAGE")
