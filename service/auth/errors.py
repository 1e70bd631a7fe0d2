"""Errors of missing or invalid credentials."""
# ruff: noqa: N818 - a name says what happened; that it is an error is said where it is raised

from __future__ import annotations

from collections.abc import Iterable

from service.generation.caller import Scope

_HOW = "send it as `authorization: Bearer KEY`, `api-key: KEY` or `x-api-key: KEY`"


class AuthError(Exception):
    """The root of these errors; its text may be shown to the caller, and never holds anything of the credential."""


class MissingKey(AuthError):
    """A call has no credential."""

    def __init__(self) -> None:
        super().__init__(f"a key is required; {_HOW}")


class InvalidKey(AuthError):
    """There is no such key: unknown, misspelt, or no key at all."""

    def __init__(self) -> None:
        super().__init__("the key is not valid")


class ExpiredKey(AuthError):
    """The key is right, and its time is over."""

    def __init__(self) -> None:
        super().__init__("the key has expired")


class DisabledKey(AuthError):
    """The key is right, and was revoked."""

    def __init__(self) -> None:
        super().__init__("the key has been revoked")


class InvalidToken(AuthError):
    """A token is not one that the service takes; `why` is for its holder, who may have to change it."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the token is not valid: {why}")


class ExpiredToken(AuthError):
    """The token is right, and its time is over."""

    def __init__(self) -> None:
        super().__init__("the token has expired")


class SignersUnknown(AuthError):
    """Tokens can't be checked now: the keys of those who sign them were never fetched. Retry later."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__("tokens can't be checked now")
        self.retry_after_s = retry_after_s


class AuthOff(AuthError):
    """A call came where keys are needed, and the service has none."""

    def __init__(self) -> None:
        super().__init__("the service has no keys, and takes no requests from other machines without")


class ScopeMissing(AuthError):
    """The caller is known, and may not do this."""

    def __init__(self, scopes: Iterable[Scope]) -> None:
        """`scopes` are those of which any would do."""
        self.scopes = tuple(sorted(scopes))
        super().__init__(f"the key lacks the scope {' or '.join(self.scopes)}")
