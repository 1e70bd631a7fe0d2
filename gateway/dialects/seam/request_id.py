"""The header by which clients mark a call that they may repeat, in every dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.dialects.seam.failure import Failure

IDEMPOTENCY_KEY: Final = "idempotency-key"
FIELD: Final = "serving.request_id"  # of the contract
_MAX_LENGTH: Final = 256


def idempotency_key(headers: Mapping[str, str]) -> str:
    """Return the key of a request, or an empty string. Raise Failure if it is too long."""
    key = headers.get(IDEMPOTENCY_KEY, "")
    if len(key) > _MAX_LENGTH:
        raise Failure.of_field(IDEMPOTENCY_KEY, f"must have at most {_MAX_LENGTH} characters")
    return key


def set_request_id(request: Any, headers: Mapping[str, str]) -> None:
    """Set the id of a request that generates text. Raise Failure."""
    if "sampling" in request.DESCRIPTOR.fields_by_name and (key := idempotency_key(headers)):
        request.serving.request_id = key
