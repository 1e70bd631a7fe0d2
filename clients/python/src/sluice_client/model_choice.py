"""Choose the model of calls that name none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import grpc

from sluice_client.errors import NotFoundError, SluiceError, reason_name
from sluice_client.v1 import error_pb2, model_pb2, token_pb2

_MODEL_NOT_FOUND: Final = reason_name(error_pb2.ERROR_REASON_MODEL_NOT_FOUND)


@dataclass(slots=True)
class KnownModels:
    """The models that the server listed last, for all calls of one client."""

    models: Sequence[model_pb2.Model] = ()


class ModelChoice:
    """The model of one call that names none: the client's, else the first that the server lists for the task.

    If the server no longer serves the listed model, the call is made once more, with the model of a new list.
    """

    def __init__(self, request: Any, task: model_pb2.Task.ValueType, own: str | None, known: KnownModels) -> None:
        """`own` is the client's model, if any. The model is set in `request`."""
        self.request = request
        self._named = request.chat if isinstance(request, token_pb2.CountTokensRequest) else request
        self._task = task
        self._known = known
        is_open = "model" in self._named.DESCRIPTOR.fields_by_name and not self._named.model
        if is_open and own:
            self._named.model = own
        self._is_listed = self._is_repeatable = is_open and not own

    def choose(self) -> bool:
        """Set the model, if it is known. Return False if the server's list is needed."""
        if self._is_listed and not self._named.model:
            self._named.model = _first(self._known.models, self._task)
        return not self._is_listed or bool(self._named.model)

    def choose_from(self, models: Iterable[model_pb2.Model]) -> None:
        """Set the model from the server's list. Raise NotFoundError if it has none for the task."""
        self._known.models = tuple(models)
        if not self.choose():
            task = model_pb2.Task.Name(self._task)
            text = f"the server lists no model for {task}; name one as `model`"
            raise NotFoundError(grpc.StatusCode.NOT_FOUND, text)

    def renew(self, error: SluiceError) -> bool:
        """Withdraw a model that the server no longer serves. Return False if the call must not be repeated."""
        if not self._is_repeatable or error.reason != _MODEL_NOT_FOUND:
            return False
        self._is_repeatable = False
        self._known.models = ()
        self._named.model = ""
        return True


def _first(models: Iterable[model_pb2.Model], task: model_pb2.Task.ValueType) -> str:
    return next((model.name for model in models if task in model.tasks), "")
