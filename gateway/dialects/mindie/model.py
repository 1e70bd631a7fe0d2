"""Convert the server and its models to the JSON of KServe's open inference protocol.

A model is described as text-to-text: one string in, one string out, each a tensor of shape [1].
"""

from __future__ import annotations

from typing import Final

import orjson
from sluice.v1.model_pb2 import Model

from gateway.dialects.seam.failure import Failure, Reason

LIVE: Final = b'{"live":true}'
READY: Final = b'{"ready":true}'


def to_server_metadata(version: str) -> bytes:
    """Return the body of `GET /v2`."""
    return orjson.dumps({"name": "sluice", "version": version, "extensions": ["generate", "generate_stream"]})


def to_model_metadata(model: Model) -> bytes:
    """Return the body of `GET /v2/models/{model}`."""
    text = {"datatype": "BYTES", "shape": [1]}
    return orjson.dumps(
        {
            "name": model.name,
            "versions": [model.version] if model.version else [],
            "platform": model.architecture,
            "inputs": [{"name": "text_input", **text}],
            "outputs": [{"name": "text_output", **text}],
        }
    )


def to_model_readiness(model: Model) -> bytes:
    """Return the body of `GET /v2/models/{model}/ready`. A model that is listed is ready."""
    return orjson.dumps({"name": model.name, "ready": True})


def check_version(model: Model, version: str | None) -> None:
    """Raise Failure unless the model is served in this version; None accepts any."""
    if version not in {None, model.version}:
        text = f"the model {model.name!r} has no version {version!r}"
        raise Failure(Reason.MODEL_NOT_FOUND, text)
