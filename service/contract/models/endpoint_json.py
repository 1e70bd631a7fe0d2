"""Endpoints as JSON: the form in which they are stored and shared."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import protovalidate
from google.protobuf import json_format
from sluice.v1 import endpoint_pb2

from service.contract.models.model import endpoint_message, to_entities, to_service_level
from service.deployment.endpoint_document import EndpointDocument, NewerEndpoint, UnreadableEndpoint
from service.generation.errors import InvalidRequest
from service.registry.description import Endpoint, Task
from service.registry.traffic import check_shares

_ENDPOINTS: Final = "endpoints"  # the field of the document that has the entries


class EndpointJson:
    """Endpoints as the JSON form of sluice.v1.ListEndpointsResponse. A `Format`.

    Replicas of several versions share the text. Content that this version doesn't know is kept: unknown fields of an
    endpoint and of the document, and entries that can't be read. A strict format, for files that people edit, raises
    ValueError for such content instead.
    """

    def __init__(self, *, is_strict: bool) -> None:
        self._is_strict = is_strict

    def empty(self) -> EndpointDocument:
        """No endpoints."""
        return EndpointDocument()

    def dump(self, document: EndpointDocument) -> str:
        """Return the text of a document."""
        known = [_entry(endpoint, document.newer.get(endpoint.name)) for endpoint in document.endpoints.values()]
        entries = [*known, *(each.entry for each in document.unreadable)]
        return json.dumps({**document.unknown, _ENDPOINTS: entries}, indent=2)

    def parse(self, text: str) -> EndpointDocument:
        """Return the document of a text. Every endpoint follows the rules of a created one. Raise ValueError."""
        try:
            values = json.loads(text)
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error
        if not isinstance(values, dict):
            raise ValueError("it must hold a JSON object")  # noqa: TRY004  like JSON that can't be parsed
        if self._is_strict:
            _message(values, endpoint_pb2.ListEndpointsResponse())
        entries = values.get(_ENDPOINTS, [])
        if not isinstance(entries, list):
            raise ValueError(f"{_ENDPOINTS} must be a list")  # noqa: TRY004  like JSON that can't be parsed
        return self._document(entries, {name: value for name, value in values.items() if name != _ENDPOINTS})

    def _document(self, entries: list[Any], unknown: dict[str, Any]) -> EndpointDocument:
        """Return the document; unreadable entries and those of a newer version are separate. Raise ValueError."""
        endpoints: dict[str, Endpoint] = {}
        unreadable: list[UnreadableEndpoint] = []
        newer: dict[str, NewerEndpoint] = {}
        for entry in entries:
            try:
                endpoint = _to_endpoint(_message(entry, endpoint_pb2.Endpoint(), ignore_unknown=not self._is_strict))
            except ValueError as error:
                if self._is_strict:
                    raise
                name = entry.get("name") if isinstance(entry, dict) else None
                unreadable.append(UnreadableEndpoint(name if isinstance(name, str) else "", entry, str(error)))
                continue
            if endpoint.name in endpoints:
                raise ValueError(f"duplicate endpoint {endpoint.name!r}")
            endpoints[endpoint.name] = endpoint
            if _has_unknown_fields(entry):
                newer[endpoint.name] = NewerEndpoint(endpoint, entry)
        return EndpointDocument(endpoints, tuple(unreadable), newer, unknown)


def _entry(endpoint: Endpoint, newer: NewerEndpoint | None) -> Mapping[str, Any]:
    """The JSON of an endpoint; the entry as it was read, unless the endpoint was changed here."""
    if newer is not None and newer.endpoint == endpoint:
        return newer.entry
    entry: dict[str, Any] = json_format.MessageToDict(endpoint_message(endpoint), preserving_proto_field_name=True)
    if newer is None:
        return entry
    known = {name for field in endpoint_pb2.Endpoint.DESCRIPTOR.fields for name in (field.name, field.json_name)}
    return {**{name: value for name, value in newer.entry.items() if name not in known}, **entry}


def _has_unknown_fields(entry: dict[str, Any]) -> bool:
    """Return whether an entry has fields that this version does not know."""
    try:
        _message(entry, endpoint_pb2.Endpoint())
    except ValueError:
        return True
    return False


def _message(values: Any, message: Any, *, ignore_unknown: bool = False) -> Any:
    """Parse JSON values into `message`. Raise ValueError with a one-line reason."""
    try:
        return json_format.ParseDict(values, message, ignore_unknown_fields=ignore_unknown)
    except (json_format.ParseError, AttributeError, TypeError) as error:  # the last two for what is no JSON object
        raise ValueError(" ".join(str(error).split())) from error


def _to_endpoint(endpoint: endpoint_pb2.Endpoint) -> Endpoint:
    """Return a stored endpoint as a value. Raise ValueError if it is invalid."""
    request = endpoint_pb2.CreateEndpointRequest(
        name=endpoint.name, entities=endpoint.entities, service_level=endpoint.service_level
    )
    entities = to_entities(endpoint.entities)
    try:
        protovalidate.validate(request)
        check_shares(entities)
    except (protovalidate.ValidationError, InvalidRequest) as error:
        reason = str(error)
        if isinstance(error, protovalidate.ValidationError):
            reason = "; ".join(violation.proto.message for violation in error.violations)
        raise ValueError(f"the endpoint {endpoint.name!r}: {reason}") from error
    return Endpoint(
        name=endpoint.name,
        task=Task(endpoint.task) if endpoint.task else None,
        entities=entities,
        created_ns=endpoint.created.ToNanoseconds(),
        updated_ns=endpoint.updated.ToNanoseconds(),
        config_version=endpoint.config_version,
        is_model=endpoint.is_model,
        service_level=to_service_level(endpoint.service_level),
    )
