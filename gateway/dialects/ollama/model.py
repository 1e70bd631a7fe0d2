"""Descriptions of models in Ollama's form, and the parser of requests for one.

The version is that of Ollama whose API is served: clients compare it with the one that they need.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import orjson
from sluice.v1 import model_pb2
from sluice.v1.model_pb2 import GetModelRequest, GetModelResponse, Model

from gateway.dialects.ollama.line import to_time
from gateway.dialects.ollama.model_name import served_name, tagged_name
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.json_body import decode

VERSION: Final = b'{"version":"0.13.0"}'

_NEVER: Final = "2318-01-01T00:00:00Z"  # as in Ollama, for a model that stays loaded
_CLASS: Final = re.compile(r"(For\w+|LMHeadModel|Model)$")
_BITS: Final = {"float32": 32, "float16": 16, "bfloat16": 16, "int8": 8, "int4": 4}
_LEVELS: Final = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "int8": "Q8_0", "int4": "Q4_0"}
_UNITS: Final = ((10**9, "B"), (10**6, "M"), (10**3, "K"))


class OllamaShowBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The body of `POST /api/show`. `name` is an older name of `model`; the others have no effect."""

    model: str | None = None
    name: str | None = None
    verbose: bool | None = None
    system: str | None = None
    template: str | None = None
    options: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ShowRequest:
    """A parsed request for the description of a model."""

    request: GetModelRequest
    caller_name: Callable[[str], str] = field(default=lambda name: name)


_DECODER: Final = msgspec.json.Decoder(OllamaShowBody)


def parse_show(http_request: HttpRequest) -> ShowRequest:
    """Parse a request for the description of a model. Raise Failure."""
    body = decode(http_request.body, _DECODER)
    name = body.model or body.name
    if not name:
        raise Failure.of_field("model", "required, but missing", Reason.MISSING_FIELD)
    return ShowRequest(GetModelRequest(model=served_name(name)))


def to_show(response: GetModelResponse) -> bytes:
    """Return the body of `POST /api/show`."""
    model = response.model
    family = _family(model)
    info: dict[str, Any] = {
        "general.architecture": family,
        "general.basename": model.name,
        "general.parameter_count": model.num_parameters,
        f"{family}.context_length": model.max_model_len,
        f"{family}.vocab_size": model.vocab_size,
    }
    if model.embedding_dimensions:
        info[f"{family}.embedding_length"] = model.embedding_dimensions
    return orjson.dumps(
        {
            "license": "",
            "modelfile": f"FROM {model.name}\n",
            "parameters": "",
            "template": "",
            "details": _details(model),
            "model_info": info,
            "capabilities": _capabilities(model),
            "modified_at": to_time(model.created),
        }
    )


def to_tags(models: Iterable[Model]) -> bytes:
    """Return the body of `GET /api/tags`."""
    return orjson.dumps({"models": [_identity(model) | {"modified_at": to_time(model.created)} for model in models]})


def to_ps(models: Iterable[Model]) -> bytes:
    """Return the body of `GET /api/ps`: the models in memory."""
    return orjson.dumps(
        {
            "models": [
                _identity(model)
                | {"expires_at": _expires_at(model), "size_vram": 0, "context_length": model.max_model_len}
                for model in models
                if not model.is_asleep and model.state != model_pb2.MODEL_STATE_UNLOADED
            ]
        }
    )


def _expires_at(model: Model) -> str:
    """Return when a model is unloaded if no request arrives."""
    return to_time(model.expire_time) if model.HasField("expire_time") else _NEVER


def _identity(model: Model) -> dict[str, Any]:
    name = tagged_name(model.name)
    return {
        "name": name,
        "model": name,
        "size": model.num_parameters * _BITS.get(model.dtype, 32) // 8,
        "digest": hashlib.sha256(f"{model.name} {model.system_fingerprint}".encode()).hexdigest(),
        "details": _details(model),
    }


def _details(model: Model) -> dict[str, Any]:
    family = _family(model)
    return {
        "parent_model": model.parent,
        "format": "",
        "family": family,
        "families": [family],
        "parameter_size": _rounded(model.num_parameters),
        "quantization_level": _LEVELS.get(model.dtype, model.dtype),
    }


def _family(model: Model) -> str:
    """Return the short name of an architecture: `Qwen3ForCausalLM` → `qwen3`."""
    return _CLASS.sub("", model.architecture).lower()


def _rounded(number: int) -> str:
    """Return a number of parameters with one decimal and its unit: `7.6B`."""
    for size, unit in _UNITS:
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return str(number)


def _capabilities(model: Model) -> list[str]:
    tasks = set(model.tasks)
    generates = bool(tasks & {model_pb2.TASK_CHAT, model_pb2.TASK_COMPLETION})
    has = {
        "completion": generates,
        "tools": generates and model.supports_tools,
        "thinking": generates and model.supports_reasoning,
        "vision": model_pb2.MODALITY_IMAGE in model.input_modalities,
        "embedding": model_pb2.TASK_EMBEDDING in tasks,
    }
    return [name for name, is_able in has.items() if is_able]
