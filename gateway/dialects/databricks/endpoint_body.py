"""The bodies of Databricks' REST API that create an endpoint or change its models.

Fields about sizes, names and hardware are accepted without effect; fields that request behaviour that this server
doesn't have are rejected.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec
from sluice.v1 import endpoint_pb2

from gateway.dialects.seam.caller_name import dotted
from gateway.dialects.seam.contract_limit import check_length, put
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.json_body import is_given

_REJECTED_OF_ENTITY: Final = {
    "environment_vars": "served models have no environment variables",
    "external_model": "only models that this server has loaded can be served",
    "instance_profile_arn": "served models have no instance profile",
}
_REJECTED_OF_CONFIG: Final = {
    "auto_capture_config": "request capture is not available",
    "served_models": "deprecated; use served_entities",
}
_REJECTED_OF_ENDPOINT: Final = {
    "ai_gateway": "rate limits and guardrails of single endpoints are not available",
    "email_notifications": "email notifications are not available",
    "rate_limits": "rate limits of single endpoints are not available",
    "telemetry_config": "telemetry is configured by the operator",
}
_INVALID_CHARACTER: Final = re.compile(r"[^A-Za-z0-9._-]")
_ETAG: Final = re.compile(r'"?([0-9]{1,20})"?')
_ENTITY: Final = re.compile(r"^entities\.(\d+)(?:\.(\w+))?$")


def _raw() -> msgspec.Raw:
    return msgspec.Raw()


class ServedEntityBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A model behind an endpoint. Only `entity_name`, the model's name, and `name` have effect."""

    entity_name: str
    name: str | None = None
    entity_version: str | None = None
    burst_scaling_enabled: bool | None = None
    max_provisioned_concurrency: int | None = None
    max_provisioned_throughput: int | None = None
    min_provisioned_concurrency: int | None = None
    min_provisioned_throughput: int | None = None
    provisioned_model_units: int | None = None
    scale_to_zero_enabled: bool | None = None
    workload_size: str | None = None
    workload_type: str | None = None
    environment_vars: msgspec.Raw = msgspec.field(default_factory=_raw)
    external_model: msgspec.Raw = msgspec.field(default_factory=_raw)
    instance_profile_arn: msgspec.Raw = msgspec.field(default_factory=_raw)

    @property
    def given_name(self) -> str:
        """The name within the endpoint; by default the model's, without the characters that are not allowed."""
        return _INVALID_CHARACTER.sub("-", self.entity_name) if self.name is None else self.name


class RouteBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A share of the traffic; `served_model_name` is the older name of `served_entity_name`."""

    traffic_percentage: int
    served_entity_name: str | None = None
    served_model_name: str | None = None


class TrafficBody(msgspec.Struct, forbid_unknown_fields=True):
    """The traffic shares. An entity without a route gets no traffic."""

    routes: list[RouteBody] | None = None


class ConfigBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The body of `PUT /api/2.0/serving-endpoints/{name}/config`, and a part of the body that creates an endpoint."""

    served_entities: list[ServedEntityBody]
    traffic_config: TrafficBody | None = None
    name: str | None = None
    auto_capture_config: msgspec.Raw = msgspec.field(default_factory=_raw)
    served_models: msgspec.Raw = msgspec.field(default_factory=_raw)

    def to_update(self, name: str) -> endpoint_pb2.UpdateEndpointRequest:
        """Return the contract's request for the endpoint `name`. Raise Failure."""
        return endpoint_pb2.UpdateEndpointRequest(name=name, entities=self.to_entities(name, ""))

    def to_entities(self, name: str, prefix: str) -> list[endpoint_pb2.ServedEntity]:
        """Return the contract's entities of the endpoint `name`. `prefix` is put before field names. Raise Failure."""
        _reject_unsupported(self, _REJECTED_OF_CONFIG, prefix)
        if self.name not in {None, name}:
            raise Failure.of_field(f"{prefix}name", "must be the endpoint's name, or omitted")
        field = f"{prefix}served_entities"
        check_length(endpoint_pb2.CreateEndpointRequest, "entities", self.served_entities, field)
        for i, each in enumerate(self.served_entities):
            _reject_unsupported(each, _REJECTED_OF_ENTITY, f"{field}.{i}.")
        entities = [
            endpoint_pb2.ServedEntity(name=each.given_name, model=each.entity_name) for each in self.served_entities
        ]
        if self.routes:
            self._share(entities, prefix)
        elif len(entities) == 1:
            entities[0].traffic_percentage = 100
        elif entities:
            text = "required with several served_entities"
            raise Failure.of_field(f"{prefix}traffic_config.routes", text, Reason.MISSING_FIELD)
        return entities

    @property
    def routes(self) -> list[RouteBody]:
        """The routes of the request."""
        return (self.traffic_config and self.traffic_config.routes) or []

    def caller_name(self, field: str, prefix: str = "") -> str:
        """Return the caller's name of the contract's `field`: `entities[0].model` → `served_entities.0.entity_name`."""
        entity = _ENTITY.match(dotted(field))
        if entity is None:
            return f"{prefix}served_entities" if field == "entities" else field
        index, part = int(entity[1]), entity[2]
        if part == "traffic_percentage":
            name = self.served_entities[index].given_name
            for i, route in enumerate(self.routes):
                if name == _target(route):
                    return f"{prefix}traffic_config.routes.{i}.traffic_percentage"
        part = "entity_name" if part == "model" else part
        return ".".join(each for each in (f"{prefix}served_entities.{index}", part) if each is not None)

    def _share(self, entities: list[endpoint_pb2.ServedEntity], prefix: str) -> None:
        by_name = {entity.name: entity for entity in entities}
        for i, route in enumerate(self.routes):
            field = f"{prefix}traffic_config.routes.{i}"
            name = _target(route)
            if name is None:
                raise Failure.of_field(f"{field}.served_entity_name", "required, but missing", Reason.MISSING_FIELD)
            entity = by_name.pop(name, None)
            if entity is None:
                text = "must be the name of one of served_entities, each named once"
                raise Failure.of_field(f"{field}.served_entity_name", text)
            put(entity, "traffic_percentage", route.traffic_percentage, f"{field}.traffic_percentage")


class EndpointBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The body of `POST /api/2.0/serving-endpoints`."""

    name: str
    config: ConfigBody
    budget_policy_id: str | None = None
    description: str | None = None
    route_optimized: bool | None = None
    tags: list[dict[str, str]] | None = None
    ai_gateway: msgspec.Raw = msgspec.field(default_factory=_raw)
    email_notifications: msgspec.Raw = msgspec.field(default_factory=_raw)
    rate_limits: msgspec.Raw = msgspec.field(default_factory=_raw)
    telemetry_config: msgspec.Raw = msgspec.field(default_factory=_raw)

    def to_create(self) -> endpoint_pb2.CreateEndpointRequest:
        """Return the contract's request. Raise Failure."""
        _reject_unsupported(self, _REJECTED_OF_ENDPOINT, "")
        return endpoint_pb2.CreateEndpointRequest(
            name=self.name, entities=self.config.to_entities(self.name, "config.")
        )

    def caller_name(self, field: str) -> str:
        """Return the caller's name of the contract's `field`."""
        return self.config.caller_name(field, "config.")


def expected_version(headers: Mapping[str, str]) -> int | None:
    """Return the endpoint version required by the header `if-match`; None if any is allowed. Raise Failure."""
    given = headers.get("if-match", "*").strip()
    if given == "*":
        return None
    found = _ETAG.fullmatch(given)
    if found is None or not 0 < int(found[1]) < 1 << 64:
        raise Failure.of_field("if-match", 'must be * or a config_version in quotes, such as "3"')
    return int(found[1])


def _target(route: RouteBody) -> str | None:
    """Return the name of the entity that a route belongs to."""
    return route.served_model_name if route.served_entity_name is None else route.served_entity_name


def _reject_unsupported(body: msgspec.Struct, reasons: dict[str, str], prefix: str) -> None:
    """Raise Failure if a field is set that is not supported; `reasons` are the reasons by field."""
    for name, reason in reasons.items():
        if is_given(getattr(body, name)):
            raise Failure.of_field(f"{prefix}{name}", f"not supported: {reason}", Reason.UNSUPPORTED_FIELD)
