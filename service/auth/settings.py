"""Settings of authentication."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

from process.network.loopback import is_loopback

# None that signs and checks with the same key: a public key would be a key to sign with.
Algorithm: TypeAlias = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]


class AuthSettings(BaseModel):
    """Keys, tokens or both; with neither, everybody is let in who reaches the port."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    keys_file: Path | None = Field(
        None, description="YAML file of keys, as `sluice keys` writes it; read again when it changes"
    )
    keys_in_store: bool = Field(False, description="keys are in the store that replicas share (store.redis_url)")
    jwks: str | None = Field(
        None, min_length=1, description="file or URL of the JSON Web Key Set that tokens are checked with"
    )
    issuer: str | None = Field(None, min_length=1, description="tokens' `iss`; required with jwks")
    audience: str | None = Field(None, min_length=1, description="one of tokens' `aud`; required with jwks")
    algorithms: tuple[Algorithm, ...] = Field(
        ("RS256", "PS256", "ES256", "EdDSA"), min_length=1, description="how tokens may be signed"
    )
    leeway_s: Annotated[float, Field(ge=0, le=300)] = Field(
        30, description="how far the clocks of who issues tokens may be off, in seconds"
    )
    jwks_refresh_s: Annotated[float, Field(ge=1, allow_inf_nan=False)] = Field(
        300, description="time after which the key set is read again, in seconds; sooner for a key that it lacks"
    )
    claim: str = Field("sluice", min_length=1, description="tokens' claim that says what their holder may do")
    allow_anonymous: bool = Field(
        False, description="without keys_file and jwks: listen on addresses that others can reach, and let everybody in"
    )

    @property
    def is_on(self) -> bool:
        """Whether callers need a credential."""
        return self.keys_file is not None or self.keys_in_store or self.jwks is not None

    @model_validator(mode="after")
    def _keys_are_in_one_place(self) -> Self:
        if self.keys_file is not None and self.keys_in_store:
            raise ValueError("keys are in keys_file, or in the store: leave out keys_file or keys_in_store")
        return self

    @model_validator(mode="after")
    def _tokens_are_for_us(self) -> Self:
        if self.jwks is not None:
            for name in ("issuer", "audience"):
                if getattr(self, name) is None:
                    raise ValueError(f"{name} is required with jwks: another's tokens would be good here")
            place = urlsplit(self.jwks)
            if place.scheme == "http" and not is_loopback(place.hostname or ""):
                raise ValueError("jwks must be fetched by https: who changes the key set on its way can sign tokens")
        if self.allow_anonymous and self.is_on:
            raise ValueError(
                "allow_anonymous goes without keys_file and jwks, which let nobody in without a credential"
            )
        return self
