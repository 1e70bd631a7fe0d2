"""Convert models and endpoints between values and messages."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, cast

import protovalidate
from google.protobuf import json_format
from sluice.v1 import adapter_pb2, endpoint_pb2, model_pb2

from service.contract.answer import timestamp
from service.deployment.changes import LoadedModel
from service.deployment.deployment import ServedAdapter
from service.generation.errors import InvalidRequest
from service.registry.description import Endpoint, Modality, ModelDescription, ServedEntity, Task
from service.registry.traffic import check_shares
from service.settings.model_settings import Dtype

_TASKS: Final = {
    Task.CHAT: model_pb2.TASK_CHAT,
    Task.COMPLETION: model_pb2.TASK_COMPLETION,
    Task.EMBEDDING: model_pb2.TASK_EMBEDDING,
    Task.RANK: model_pb2.TASK_RANK,
}
_MODALITIES: Final = {Modality.TEXT: model_pb2.MODALITY_TEXT, Modality.IMAGE: model_pb2.MODALITY_IMAGE}


def model_message(model: ModelDescription, *, is_asleep: bool = False) -> model_pb2.Model:
    """Return the description of a model."""
    return model_pb2.Model(
        name=model.name,
        version=model.version,
        created=timestamp(model.created_ns),
        tasks=[_TASKS[task] for task in model.tasks],
        architecture=model.architecture,
        max_model_len=model.max_model_len,
        vocab_size=model.vocab_size,
        num_parameters=model.num_parameters,
        dtype=model.dtype,
        system_fingerprint=model.fingerprint,
        supports_tools=model.supports_tools,
        supports_reasoning=model.supports_reasoning,
        embedding_dimensions=model.embedding_dimensions,
        supports_resume=model.supports_resume,
        parent=model.parent,
        input_modalities=[_MODALITIES[each] for each in model.input_modalities],
        is_asleep=is_asleep,
    )


def to_loaded_model(request: model_pb2.LoadModelRequest) -> LoadedModel:
    """Convert a request to load a model."""
    return LoadedModel(
        name=request.name,
        path=request.path,
        version=request.version or "1",
        dtype=cast("Dtype | None", request.dtype or None),  # by a rule of the contract
        quantization=request.quantization or None,
        backend=request.backend or None,
        device=request.device or None,
        max_model_len=request.max_model_len if request.HasField("max_model_len") else None,
        cache_share=request.cache_share if request.HasField("cache_share") else None,
    )


def adapter_message(adapter: ServedAdapter) -> adapter_pb2.Adapter:
    """Return the description of an adapter for administrators."""
    description = adapter.served.description
    return adapter_pb2.Adapter(
        name=adapter.served.adapter,
        model=description.parent,
        path=str(adapter.folder),
        rank=adapter.loaded.rank,
        num_parameters=adapter.loaded.num_parameters,
        served=model_message(description),
    )


def endpoint_message(endpoint: Endpoint) -> endpoint_pb2.Endpoint:
    """Return the description of an endpoint."""
    return endpoint_pb2.Endpoint(
        name=endpoint.name,
        task=_TASKS[endpoint.task] if endpoint.task is not None else model_pb2.TASK_UNSPECIFIED,
        entities=[
            endpoint_pb2.ServedEntity(
                name=entity.name, model=entity.model, traffic_percentage=entity.traffic_percentage
            )
            for entity in endpoint.entities
        ],
        created=timestamp(endpoint.created_ns),
        updated=timestamp(endpoint.updated_ns),
        config_version=endpoint.config_version,
        is_model=endpoint.is_model,
        parent=endpoint.parent,
    )


def to_entities(entities: Iterable[endpoint_pb2.ServedEntity]) -> tuple[ServedEntity, ...]:
    """Return the entities of an endpoint."""
    return tuple(ServedEntity(entity.name, entity.model, entity.traffic_percentage) for entity in entities)


class EndpointJson:
    """Endpoints as the JSON form of sluice.v1.ListEndpointsResponse."""

    def dump(self, endpoints: Iterable[Endpoint]) -> str:
        """Serialize endpoints."""
        content = endpoint_pb2.ListEndpointsResponse(endpoints=map(endpoint_message, endpoints))
        return json_format.MessageToJson(content, preserving_proto_field_name=True)

    def load(self, text: str) -> list[Endpoint]:
        """Parse endpoints, and validate each like a new one. Raises ValueError."""
        try:
            values = json.loads(text)
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error
        if not isinstance(values, dict):
            raise ValueError("it must hold a JSON object")  # noqa: TRY004  like unparsable JSON
        try:
            content = json_format.ParseDict(values, endpoint_pb2.ListEndpointsResponse())
        except json_format.ParseError as error:
            raise ValueError(str(error)) from error
        return [_to_endpoint(endpoint) for endpoint in content.endpoints]


def _to_endpoint(endpoint: endpoint_pb2.Endpoint) -> Endpoint:
    request = endpoint_pb2.CreateEndpointRequest(name=endpoint.name, entities=endpoint.entities)
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
    )
