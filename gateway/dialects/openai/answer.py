"""The answers that only the OpenAI style has, and its errors, as types for the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gateway.dialects.seam.model_state import StateName


class ModelAnswer(msgspec.Struct):
    """A served model."""

    id: str
    object: Literal["model"]
    created: Annotated[int, Meta(ge=0)]
    owned_by: str
    root: str | msgspec.UnsetType = msgspec.UNSET  # for an adapter, its base model; also in `parent`
    parent: str | msgspec.UnsetType = msgspec.UNSET
    state: StateName | msgspec.UnsetType = msgspec.UNSET  # whether it is in memory


class ModelsAnswer(msgspec.Struct):
    """All served models."""

    object: Literal["list"]
    data: list[ModelAnswer]


class ModelUsageAnswer(msgspec.Struct):
    """A key's usage of one model; `requests` counts requests that used tokens."""

    model: str
    requests: Annotated[int, Meta(ge=0)]
    input_tokens: Annotated[int, Meta(ge=0)]
    output_tokens: Annotated[int, Meta(ge=0)]
    rejected_requests: Annotated[int, Meta(ge=0)]


class LimitAnswer(msgspec.Struct):
    """A limit of a key and its remainder; it applies to all models if `model` is null."""

    quota_metric: str
    model: str | None
    limit: Annotated[int, Meta(ge=0)]
    remaining: Annotated[int, Meta(ge=0)] | None  # null for limits of single requests
    reset_after_s: Annotated[float, Meta(ge=0)] | None  # null except for limits per minute


class UsageAnswer(msgspec.Struct):
    """The usage of the caller's key since a Unix time, and its limits; `key` is null for clients without a key."""

    object: Literal["usage"]
    key: str | None
    since: Annotated[int, Meta(ge=0)]
    models: list[ModelUsageAnswer]
    limits: list[LimitAnswer]


class TokensAnswer(msgspec.Struct):
    """A prompt's tokens; their texts only on request."""

    count: Annotated[int, Meta(ge=0)]
    max_model_len: Annotated[int, Meta(ge=0)]
    tokens: list[int]
    token_strs: list[str] | None


class TextAnswer(msgspec.Struct):
    """The text of tokens."""

    prompt: str


class InputTokensAnswer(msgspec.Struct):
    """The number of tokens of a response's input."""

    object: Literal["response.input_tokens"]
    input_tokens: Annotated[int, Meta(ge=0)]


class KeyAnswer(msgspec.Struct):
    """A public Ed25519 key as a JSON Web Key (RFC 8037)."""

    kty: Literal["OKP"]
    crv: Literal["Ed25519"]
    x: str
    kid: str
    alg: Literal["EdDSA"]
    use: Literal["sig"]


class KeySetAnswer(msgspec.Struct):
    """The public keys that verify receipts."""

    keys: list[KeyAnswer]


class ErrorDetails(msgspec.Struct):
    """The details of an error; `param` is the invalid field."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorAnswer(msgspec.Struct):
    """An error in the OpenAI style."""

    error: ErrorDetails
