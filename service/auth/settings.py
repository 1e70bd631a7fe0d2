"""Settings of authentication."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

from process.network.loopback import is_loopback
from process.settings.setting import UNIT

# No symmetric algorithms: with those, a published verification key could sign tokens.
Algorithm: TypeAlias = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]


class AuthSettings(BaseModel):
    """Settings of keys and tokens.

    With neither, all calls are admitted, except changes of models, adapters and endpoints.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    keys_file: Path | None = Field(
        None, description="YAML file of API keys, written by `sluice keys`; read again when it changes"
    )
    keys_in_store: bool = Field(False, description="read API keys from the store that replicas share (store.redis_url)")
    jwks: str | None = Field(None, min_length=1, description="file or URL of the JSON Web Key Set that verifies tokens")
    issuer: str | None = Field(None, min_length=1, description="required `iss` of tokens; must be set with jwks")
    audience: str | None = Field(None, min_length=1, description="required `aud` of tokens; must be set with jwks")
    algorithms: tuple[Algorithm, ...] = Field(
        ("RS256", "PS256", "ES256", "EdDSA"), min_length=1, description="accepted signature algorithms of tokens"
    )
    leeway_s: Annotated[float, Field(ge=0, le=300, json_schema_extra={UNIT: "seconds"})] = Field(
        30, description="tolerated difference between the clocks of the issuer and of the service"
    )
    jwks_refresh_s: Annotated[float, Field(ge=1, allow_inf_nan=False, json_schema_extra={UNIT: "seconds"})] = Field(
        300,
        description="time after which the key set is read again; earlier for a token with an unknown key id",
    )
    claim: str = Field("sluice", min_length=1, description="claim of tokens that holds the rights of the caller")
    allow_anonymous: bool = Field(
        False,
        description="allow addresses that other machines can reach although authentication is off: every client is "
        "accepted",
    )
    operator_token_file: Path | None = Field(
        None,
        description="file with the operator token: while authentication is off, changes of models, adapters and "
        "endpoints need it as their key; null: they are rejected, unless allow_anonymous_changes is true",
    )
    allow_anonymous_changes: bool = Field(
        False,
        description="while authentication is off, every client may change models, adapters and endpoints, without the "
        "operator token",
    )

    @property
    def is_on(self) -> bool:
        """True if calls need a credential."""
        return self.keys_file is not None or self.keys_in_store or self.jwks is not None

    @model_validator(mode="after")
    def _keys_have_one_source(self) -> Self:
        if self.keys_file is not None and self.keys_in_store:
            raise ValueError("keys_file and keys_in_store can't both be set")
        return self

    @model_validator(mode="after")
    def _tokens_are_verified(self) -> Self:
        if self.jwks is not None:
            for name in ("issuer", "audience"):
                if getattr(self, name) is None:
                    raise ValueError(f"{name} must be set with jwks; without it, others' tokens would be accepted")
            url = urlsplit(self.jwks)
            if url.scheme == "http" and not is_loopback(url.hostname or ""):
                raise ValueError("jwks must be an https URL: over http, the key set can be replaced on the network")
        if self.allow_anonymous and self.is_on:
            raise ValueError(
                "allow_anonymous can't be set with keys_file, keys_in_store or jwks, which require a credential"
            )
        return self
