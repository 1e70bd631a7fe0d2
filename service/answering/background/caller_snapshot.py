"""The caller of a response in the background as bytes: its rights and limits at the time of the request."""

from __future__ import annotations

from typing import Final

from pydantic import TypeAdapter

from service.generation.caller import Caller

_ADAPTER: Final = TypeAdapter(Caller)


def to_bytes(caller: Caller) -> bytes:
    """Return a caller as bytes."""
    return _ADAPTER.dump_json(caller)


def to_caller(data: bytes) -> Caller:
    """Return the caller that `to_bytes` has stored."""
    return _ADAPTER.validate_json(data)
