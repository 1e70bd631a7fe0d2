"""The answers of Databricks' REST API and its errors, as types for the OpenAPI document."""

from __future__ import annotations

from typing import Any

import msgspec


class DatabricksError(msgspec.Struct):
    """An error in Databricks' dialect."""

    error_code: str
    message: str


class EndpointAnswer(msgspec.Struct):
    """An endpoint: a name that requests use, and the models behind it."""

    name: str
    task: str | None = None
    state: dict[str, Any] | None = None
    config: dict[str, Any] | None = None
    creation_timestamp: int | None = None
    last_updated_timestamp: int | None = None


class EndpointsAnswer(msgspec.Struct):
    """All endpoints."""

    endpoints: list[EndpointAnswer]


class NothingAnswer(msgspec.Struct):
    """The empty object that is the answer to a successful request without a result."""
