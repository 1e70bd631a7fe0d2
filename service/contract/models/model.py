"""Convert models and endpoints between values and messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, cast

from sluice.v1 import adapter_pb2, endpoint_pb2, model_pb2, serving_pb2

from service.contract.parts.answer import timestamp
from service.deployment.changes import LoadedModel
from service.deployment.deployment import ServedAdapter
from service.generation.service_level import ServiceLevel
from service.registry.description import Endpoint, Modality, ModelDescription, ModelState, ServedEntity, Task
from service.settings.model_settings import Dtype

_TASKS: Final = {
    Task.CHAT: model_pb2.TASK_CHAT,
    Task.COMPLETION: model_pb2.TASK_COMPLETION,
    Task.EMBEDDING: model_pb2.TASK_EMBEDDING,
    Task.RANK: model_pb2.TASK_RANK,
}
_STATES: Final = {
    ModelState.LOADED: model_pb2.MODEL_STATE_LOADED,
    ModelState.UNLOADED: model_pb2.MODEL_STATE_UNLOADED,
    ModelState.ASLEEP: model_pb2.MODEL_STATE_ASLEEP,
}
_MODALITIES: Final = {Modality.TEXT: model_pb2.MODALITY_TEXT, Modality.IMAGE: model_pb2.MODALITY_IMAGE}


def model_message(
    model: ModelDescription, state: ModelState = ModelState.LOADED, expires_ns: int | None = None
) -> model_pb2.Model:
    """Return the message that describes a model. `expires_ns` is when it is unloaded if no request arrives."""
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
        is_asleep=state is ModelState.ASLEEP,
        state=_STATES[state],
        expire_time=timestamp(expires_ns) if expires_ns is not None else None,
    )


def to_loaded_model(request: model_pb2.LoadModelRequest) -> LoadedModel:
    """Return the model that a request asks to load."""
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
    """Return the message that describes an adapter."""
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
    """Return the message that describes an endpoint."""
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
        service_level=_service_level_message(endpoint.service_level) if any(endpoint.service_level) else None,
    )


def _service_level_message(level: ServiceLevel) -> serving_pb2.ServiceLevel:
    return serving_pb2.ServiceLevel(first_token_seconds=level.first_token_s, token_seconds=level.token_s)


def to_service_level(message: serving_pb2.ServiceLevel) -> ServiceLevel:
    """Return the limits of a message; a missing one has none."""
    return ServiceLevel(
        message.first_token_seconds if message.HasField("first_token_seconds") else None,
        message.token_seconds if message.HasField("token_seconds") else None,
    )


def to_entities(entities: Iterable[endpoint_pb2.ServedEntity]) -> tuple[ServedEntity, ...]:
    """Return the entities of an endpoint."""
    return tuple(ServedEntity(entity.name, entity.model, entity.traffic_percentage) for entity in entities)
