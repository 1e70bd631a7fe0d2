"""Ids of requests with an effect, by which the server recognizes one that is sent again."""

from __future__ import annotations

import uuid
from typing import TypeVar

from google.protobuf.message import Message as Proto

from sluice_client.v1 import response_pb2

R = TypeVar("R", bound=Proto)


def with_id(message: R) -> R:
    """Return a request with one effect, however often gRPC sends it.

    A request for a response that is stored, added to a conversation or created in the background gets an id, in a copy
    of the message, unless it has one. Others are returned as they are, as are those of resumed streams.
    """
    if not isinstance(message, response_pb2.CreateResponseRequest):
        return message
    has_effect = message.background or message.store or message.conversation
    if not has_effect or message.serving.request_id or message.response_id or message.HasField("resume"):
        return message
    found = type(message)()
    found.CopyFrom(message)
    if message.background:
        found.serving.request_id = uuid.uuid4().hex
    else:
        found.response_id = uuid.uuid4().hex
    return found
