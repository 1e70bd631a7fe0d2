"""Errors of missing or invalid credentials."""
# ruff: noqa: N818 - a name states the condition, without the suffix Error

from __future__ import annotations

from collections.abc import Iterable, Mapping

from service.generation.caller import Scope
from service.generation.errors import ServiceError

_HOW_TO_SEND = "send it as `authorization: Bearer KEY`, `api-key: KEY` or `x-api-key: KEY`"


class AuthError(ServiceError):
    """The root of the errors of credentials; no text contains any part of the credential."""


class MissingKey(AuthError):
    """A call carries no credential."""

    def __init__(self) -> None:
        super().__init__(f"a key is required; {_HOW_TO_SEND}")


class InvalidKey(AuthError):
    """The key is unknown or malformed."""

    def __init__(self) -> None:
        super().__init__("the key is not valid")


class ExpiredKey(AuthError):
    """The key has passed its expiry time."""

    def __init__(self) -> None:
        super().__init__("the key has expired")


class DisabledKey(AuthError):
    """The key was revoked."""

    def __init__(self) -> None:
        super().__init__("the key has been revoked")


class InvalidToken(AuthError):
    """The service does not accept a token; `reason` is the cause, for the holder of the token."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the token is not valid: {reason}")


class ExpiredToken(AuthError):
    """The token has passed its expiry time."""

    def __init__(self) -> None:
        super().__init__("the token has expired")


class SignersUnknown(AuthError):
    """Tokens can't be verified now: their issuers' keys could not be fetched yet. Retry after `retry_after_s`."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__("tokens can't be checked now")
        self.retry_after_s = retry_after_s


class AuthOff(AuthError):
    """The gateway requires keys for a request that doesn't come from this machine, and the service has none."""

    def __init__(self, reason: str = "takes no requests from other machines without") -> None:
        super().__init__(f"the service has no keys, and {reason}")


class MissingOperatorToken(MissingKey):
    """A change of models, adapters or endpoints lacks the operator token.

    The token is required while authentication is off.
    """

    def __init__(self) -> None:
        AuthError.__init__(
            self,
            "without API keys, changes of models, adapters and endpoints need the operator token, the content of "
            f"auth.operator_token_file, or auth.allow_anonymous_changes: true; {_HOW_TO_SEND}",
        )


class InvalidOperatorToken(InvalidKey):
    """A change of models, adapters or endpoints has a credential other than the operator token."""

    def __init__(self) -> None:
        AuthError.__init__(
            self,
            "the credential isn't the operator token, the content of auth.operator_token_file, which changes of "
            "models, adapters and endpoints need without API keys",
        )


class ScopeMissing(AuthError):
    """The credential is valid but lacks a required scope."""

    def __init__(self, scopes: Iterable[Scope]) -> None:
        """`scopes` are the scopes of which any is sufficient."""
        self.scopes = tuple(sorted(scopes))
        super().__init__(f"the key lacks the scope {' or '.join(self.scopes)}")

    @property
    def values(self) -> Mapping[str, str]:
        return {"scopes": " ".join(self.scopes)}
