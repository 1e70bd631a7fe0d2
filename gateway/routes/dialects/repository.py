"""The routes that load and unload models of Triton's and KServe's model repository, under /v2/repository/models."""

from __future__ import annotations

from typing import Final

from google.protobuf.message import Message

from gateway.dialects.mindie.answer import TritonError
from gateway.dialects.mindie.error import MindieErrors
from gateway.dialects.mindie.repository import DONE, RepositoryAnswer, RepositoryBody, parse_load, parse_unload
from gateway.routes.examples.example import MODEL_NAME
from gateway.routes.handling.handler import Change
from gateway.routes.surface.operation import Body, Operation
from gateway.routes.surface.surface import Surface

_ROOT: Final = "/v2/repository/models"
_BODY: Final = Body(RepositoryBody, {"parameters": {}}, RepositoryAnswer, is_optional=True)


def _done(reply: Message) -> bytes:  # noqa: ARG001  it is empty
    return DONE


REPOSITORY: Final = Surface(
    tag="MindIE and Triton",
    error=TritonError,
    error_response=MindieErrors().error_response,
    prefixes=(_ROOT,),
    operations=(
        Operation("POST", f"{_ROOT}/{{model:path}}/load", "Loads a model.", Change(parse_load, _done), [_BODY],
                  parameters=[MODEL_NAME]),
        Operation("POST", f"{_ROOT}/{{model:path}}/unload", "Unloads a model.", Change(parse_unload, _done), [_BODY],
                  parameters=[MODEL_NAME]),
    ),
)  # fmt: skip
