"""Choose the model if a dialect lets the client omit its name.

A served name is kept; a requested deployment selects its endpoint; otherwise the only model of the task is used, if the
name is missing or unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from google.protobuf.message import Message
from sluice.v1.chat_pb2 import ChatRequest
from sluice.v1.embedding_pb2 import EmbedRequest
from sluice.v1.endpoint_pb2 import Endpoint
from sluice.v1.model_pb2 import TASK_CHAT, TASK_COMPLETION, TASK_EMBEDDING, TASK_RANK, Task

from gateway.dialects.seam.failure import Failure, Reason
from gateway.routes.upstream.endpoint_lists import EndpointLists
from gateway.upstream.client import Caller

_TASKS: Final[dict[type[Message], Task]] = {ChatRequest: TASK_CHAT, EmbedRequest: TASK_EMBEDDING}


class ModelChoice:
    """Chooses the model of a request among the served ones."""

    def __init__(self, lists: EndpointLists) -> None:
        self._lists = lists

    async def default(self, deployment: str, caller: Caller) -> Endpoint:
        """Return the default model: the deployment's endpoint, or the only model of the first served task.

        Raise Failure.
        """
        endpoints = await self._lists.visible_to(caller)
        name = ""
        for task in (TASK_CHAT, TASK_COMPLETION, TASK_EMBEDDING, TASK_RANK):
            if any(each.task == task for each in endpoints):
                name = _choose(endpoints, "", deployment, task)
                break
        found = [each for each in endpoints if each.name == name]
        if not found:
            raise Failure(Reason.MODEL_NOT_FOUND, "no model is served")
        return found[0]

    async def settle(self, request: Any, caller: Caller) -> None:
        """Set the request's model, which may be empty or an unknown name. Raise Failure."""
        endpoints = await self._lists.visible_to(caller)
        request.model = _choose(endpoints, request.model, request.serving.deployment, _TASKS[type(request)])


def _choose(endpoints: Sequence[Endpoint], name: str, deployment: str, task: Task) -> str:
    """Return the name to request. Raise Failure if there are several candidates or none."""
    if any(name in {each.name, _own_name(each)} for each in endpoints):
        return name
    if deployment:
        owners = [each.name for each in endpoints if any(entity.name == deployment for entity in each.entities)]
        if deployment in owners:
            return deployment
        if len(owners) == 1:
            return owners[0]
    able = [each.name for each in endpoints if each.is_model and not each.parent and each.task == task]
    if name:  # ignored if the task has only one model; otherwise the service reports that it does not exist
        return able[0] if len(able) == 1 else name
    if not able:
        raise Failure(Reason.TASK_NOT_SERVED, "no served model supports this task")
    if len(able) > 1:
        raise Failure.of_field("model", "required when several models are served", Reason.MISSING_FIELD)
    return able[0]


def _own_name(endpoint: Endpoint) -> str:
    """Return an adapter's name without its model's prefix, which is accepted too; of others, the whole name."""
    return endpoint.name.removeprefix(f"{endpoint.parent}:") if endpoint.parent else endpoint.name
