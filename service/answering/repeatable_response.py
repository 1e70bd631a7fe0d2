"""Responses that can be requested again: their id and their seed follow from the request."""

from __future__ import annotations

import hashlib
from typing import Final

from sluice.v1 import response_pb2

from service.calls.call import current_caller

_ID_SIZE: Final = 16  # bytes
_SEED_SIZE: Final = 4


def repeatable(request: response_pb2.CreateResponseRequest) -> response_pb2.CreateResponseRequest:
    """Return a request with an id of its response and a seed, if the client has given an id of either.

    A request that is sent again, perhaps to another process, then has the same response. Others are returned as they
    are, as are those of resumed streams, which have both.
    """
    request_id = request.serving.request_id
    if request.HasField("resume") or not (request.response_id or request_id):
        return request
    found = response_pb2.CreateResponseRequest()
    found.CopyFrom(request)
    caller_id = current_caller().id
    if not found.response_id:
        found.response_id = response_id_of(caller_id, request_id)
    if not found.sampling.HasField("seed"):
        found.sampling.seed = int.from_bytes(_digest(f"seed\0{caller_id}\0{found.response_id}", _SEED_SIZE), "big")
    return found


def response_id_of(caller_id: str, request_id: str) -> str:
    """Return the id of the response to a request with an id, in the foreground and in the background."""
    return _digest(f"response\0{caller_id}\0{request_id}", _ID_SIZE).hex()


def _digest(text: str, size: int) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=size).digest()
