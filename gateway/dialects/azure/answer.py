"""The answers that only the Azure AI model inference API has, and its errors, as types for the OpenAPI document."""

from __future__ import annotations

from typing import Any

import msgspec


class AzureError(msgspec.Struct):
    """An error in Azure's dialect; `detail.loc` is the path of the invalid field."""

    error: Any
    message: str
    status: int
    code: str | None = None
    param: str | None = None
    detail: dict[str, Any] | None = None


class ModelInfoAnswer(msgspec.Struct):
    """The model that serves an Azure path."""

    model_name: str
    model_type: str
    model_provider_name: str
