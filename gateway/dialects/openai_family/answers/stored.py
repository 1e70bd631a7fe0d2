"""The answers of stored responses, as types for the OpenAPI document."""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class DeletedResponseAnswer(msgspec.Struct):
    """The confirmation that a stored response was deleted."""

    id: str
    object: Literal["response"]
    deleted: bool


class InputItemsAnswer(msgspec.Struct):
    """A page of the input items of a stored response."""

    object: Literal["list"]
    data: list[dict[str, Any]]
    first_id: str | None
    last_id: str | None
    has_more: bool
