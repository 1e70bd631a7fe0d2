"""Convert the server and its models to the JSON of KServe's open inference protocol.

The service describes models by their tensors.
"""

from __future__ import annotations

from typing import Any, Final

import orjson
from google.protobuf.json_format import MessageToDict
from sluice.inference import inference_pb2, model_statistics_pb2
from sluice.v1.model_pb2 import Model

from gateway.dialects.seam.failure import Failure, Reason

LIVE: Final = b'{"live":true}'
EXTENSIONS: Final = (
    "generate", "generate_stream", "binary_tensor_data", "model_configuration", "model_repository", "statistics",
)  # fmt: skip
READY: Final = b'{"ready":true}'


def to_server_metadata(version: str) -> bytes:
    """Return the body of `GET /v2`."""
    return orjson.dumps({"name": "sluice", "version": version, "extensions": EXTENSIONS})


def to_model_metadata(model: inference_pb2.ModelMetadataResponse) -> bytes:
    """Return the body of `GET /v2/models/{model}`."""
    return orjson.dumps(
        {
            "name": model.name,
            "versions": list(model.versions),
            "platform": model.platform,
            "inputs": [_tensor(each) for each in model.inputs],
            "outputs": [_tensor(each) for each in model.outputs],
        }
    )


def _tensor(tensor: inference_pb2.ModelMetadataResponse.TensorMetadata) -> dict[str, Any]:
    return {"name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.shape)}


def to_model_config(response: inference_pb2.ModelConfigResponse) -> bytes:
    """Return the body of `GET /v2/models/{model}/config`."""
    config: Any = response.config  # both lists have elements with `dims`, of different types
    fields = MessageToDict(config, preserving_proto_field_name=True)
    for name, tensors in (("input", config.input), ("output", config.output)):
        for each, tensor in zip(fields.get(name, ()), tensors, strict=True):
            each["dims"] = list(tensor.dims)  # protobuf's JSON has texts instead of integers of 64 bits
    fields["max_batch_size"] = config.max_batch_size  # protobuf's JSON omits zeros and false
    fields["model_transaction_policy"] = {"decoupled": config.model_transaction_policy.decoupled}
    return orjson.dumps(fields)


_DURATIONS: Final = (  # clients such as perf_analyzer need all of Triton's; those that the service lacks are 0
    "success", "fail", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss",
)  # fmt: skip


def to_model_statistics(response: model_statistics_pb2.ModelStatisticsResponse) -> bytes:
    """Return the body of `GET /v2/models/{model}/stats`."""
    return orjson.dumps({"model_stats": [_statistics(each) for each in response.model_stats]})


def _statistics(model: model_statistics_pb2.ModelStatistics) -> dict[str, Any]:
    durations = {
        name: getattr(model.inference_stats, name, model_statistics_pb2.StatisticDuration()) for name in _DURATIONS
    }
    return {
        "name": model.name,
        "version": model.version,
        "last_inference": model.last_inference,
        "inference_count": model.inference_count,
        "execution_count": model.execution_count,
        "inference_stats": {name: {"count": each.count, "ns": each.ns} for name, each in durations.items()},
    }


def to_repository_index(response: inference_pb2.RepositoryIndexResponse) -> bytes:
    """Return the body of `POST /v2/repository/index`."""
    return orjson.dumps([MessageToDict(each, preserving_proto_field_name=True) for each in response.models])


def to_model_readiness(model: Model) -> bytes:
    """Return the body of `GET /v2/models/{model}/ready`. Raise Failure for a model that sleeps."""
    if model.is_asleep:
        raise Failure(Reason.MODEL_ASLEEP, f"the model {model.name!r} sleeps")
    return orjson.dumps({"name": model.name, "ready": True})


def check_version(model: Model, version: str | None) -> None:
    """Raise Failure unless the model is served in this version; None accepts any."""
    if version not in {None, model.version}:
        text = f"the model {model.name!r} has no version {version!r}"
        raise Failure(Reason.MODEL_NOT_FOUND, text)
