"""Choose the model of a request that omits its name: the only one that serves the task.

Azure's dialect also ignores unknown names, and lets a requested deployment select its endpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from google.protobuf.message import Message
from sluice.v1.chat_pb2 import ChatRequest
from sluice.v1.completion_pb2 import CompleteRequest
from sluice.v1.embedding_pb2 import EmbedRequest
from sluice.v1.endpoint_pb2 import Endpoint
from sluice.v1.model_pb2 import (
    TASK_CHAT,
    TASK_COMPLETION,
    TASK_EMBEDDING,
    TASK_RANK,
    GetModelRequest,
    KeepModelRequest,
    Task,
)
from sluice.v1.rank_pb2 import RankRequest, ScoreRequest
from sluice.v1.response_pb2 import CreateResponseRequest
from sluice.v1.text_generation_pb2 import GenerateTextRequest
from sluice.v1.token_pb2 import CountTokensRequest, DetokenizeTextRequest, TokenizeTextRequest

from gateway.dialects.seam.failure import Failure, Reason
from gateway.routes.upstream.endpoint_lists import EndpointLists
from gateway.upstream.caller import Caller

_CHAT: Final = frozenset({TASK_CHAT})
_TEXT: Final = frozenset({TASK_CHAT, TASK_COMPLETION})
_EMBEDDING: Final = frozenset({TASK_EMBEDDING})
_RANK: Final = frozenset({TASK_RANK})
_ANY: Final = (_CHAT, frozenset({TASK_COMPLETION}), _EMBEDDING, _RANK)

# The tasks of the models that serve a request. The first set with a served model applies.
_TASKS: Final[Mapping[type[Message], Sequence[AbstractSet[Task]]]] = {
    ChatRequest: (_CHAT,),
    CompleteRequest: (_TEXT,),
    CreateResponseRequest: (_CHAT,),
    DetokenizeTextRequest: _ANY,
    EmbedRequest: (_EMBEDDING,),
    GenerateTextRequest: (_TEXT,),
    GetModelRequest: _ANY,
    KeepModelRequest: _ANY,
    RankRequest: (_RANK, _EMBEDDING),
    ScoreRequest: (_RANK, _EMBEDDING),
    TokenizeTextRequest: _ANY,
}


class ModelChoice:
    """Chooses the model of a request among the served ones."""

    def __init__(self, lists: EndpointLists) -> None:
        self._lists = lists

    async def default(self, deployment: str, caller: Caller) -> Endpoint:
        """Return the default model: the deployment's endpoint, or the only model of the first served task.

        Raise Failure.
        """
        endpoints = await self._lists.visible_to(caller)
        name = _choose(endpoints, "", deployment, _ANY) if endpoints else ""
        found = [each for each in endpoints if each.name == name]
        if not found:
            raise Failure(Reason.MODEL_NOT_FOUND, "no model is served")
        return found[0]

    async def settle(self, request: Any, caller: Caller) -> None:
        """Set the request's model, which may be empty or an unknown name. Raise Failure."""
        endpoints = await self._lists.visible_to(caller)
        request.model = _choose(endpoints, request.model, request.serving.deployment, _TASKS[type(request)])

    async def complete(self, request: Any, caller: Caller) -> None:
        """Set the model of a request that should name one and doesn't; others stay unchanged. Raise Failure."""
        named = getattr(request, request.WhichOneof("prompt")) if isinstance(request, CountTokensRequest) else request
        if type(named) in _TASKS and not named.model:
            named.model = _only(await self._lists.visible_to(caller), _TASKS[type(named)])


def _choose(endpoints: Sequence[Endpoint], name: str, deployment: str, tasks: Sequence[AbstractSet[Task]]) -> str:
    """Return the name to request. Raise Failure if there are several candidates or none."""
    if any(name in {each.name, _own_name(each)} for each in endpoints):
        return name
    if deployment:
        owners = [each.name for each in endpoints if any(entity.name == deployment for entity in each.entities)]
        if deployment in owners:
            return deployment
        if len(owners) == 1:
            return owners[0]
    if not name:
        return _only(endpoints, tasks)
    able = _able(endpoints, tasks)  # an unknown name is ignored only if the task has only one model
    return able[0] if len(able) == 1 else name


def _only(endpoints: Sequence[Endpoint], tasks: Sequence[AbstractSet[Task]]) -> str:
    """Return the name of the only model of the tasks. Raise Failure if there are several or none."""
    able = _able(endpoints, tasks)
    if not able:
        raise Failure.of_field("model", "no served model supports this task", Reason.TASK_NOT_SERVED)
    if len(able) > 1:
        raise Failure.of_field("model", "required when several models are served", Reason.MISSING_FIELD)
    return able[0]


def _able(endpoints: Sequence[Endpoint], tasks: Sequence[AbstractSet[Task]]) -> list[str]:
    """Return the names of all models, without adapters, of the first task in `tasks` that any model serves."""
    for alike in tasks:
        able = [each.name for each in endpoints if each.is_model and not each.parent and each.task in alike]
        if able:
            return able
    return []


def _own_name(endpoint: Endpoint) -> str:
    """Return an adapter's name without the prefix of its model; other names are returned unchanged."""
    return endpoint.name.removeprefix(f"{endpoint.parent}:") if endpoint.parent else endpoint.name
