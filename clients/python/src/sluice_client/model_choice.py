"""Choose the model of a call that names none."""

from __future__ import annotations

from collections.abc import Sequence

import grpc

from sluice_client.errors import NotFoundError
from sluice_client.v1 import model_pb2


def choose_model(models: Sequence[model_pb2.Model], task: model_pb2.Task.ValueType) -> str:
    """Return the name of the first model for the task. Raise NotFoundError if there is none."""
    for model in models:
        if task in model.tasks:
            return model.name
    name = model_pb2.Task.Name(task)
    raise NotFoundError(grpc.StatusCode.NOT_FOUND, f"the server lists no model for {name}; name one as `model`")
