"""The answers of stored responses, as types for the OpenAPI document."""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class DeletedResponseAnswer(msgspec.Struct):
    """The confirmation that a stored response was deleted."""

    id: str
    object: Literal["response"]
    deleted: bool


class ReplayAnswer(msgspec.Struct):
    """The comparison of a stored response with the one that was generated again."""

    id: str
    object: Literal["response.replay"]
    equal: bool
    differences: list[str]
    receipt: str


class InputItemsAnswer(msgspec.Struct):
    """A page of the input items of a stored response."""

    object: Literal["list"]
    data: list[dict[str, Any]]
    first_id: str | None
    last_id: str | None
    has_more: bool
