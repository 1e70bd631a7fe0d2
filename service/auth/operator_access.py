"""Access to changes of models, adapters and endpoints while authentication is off."""

from __future__ import annotations

import hmac
from typing import Final, Self

from service.auth.errors import InvalidOperatorToken, MissingOperatorToken
from service.auth.keys.key_entry import KeysError
from service.auth.settings import AuthSettings

_MIN_LENGTH: Final = 16  # characters of a token


class OperatorAccess:
    """Admits changes with the operator token, or all changes."""

    def __init__(self, token: str | None, *, is_open: bool) -> None:
        """`is_open` admits every change; otherwise, without a token, none is admitted."""
        self._token = token
        self._is_open = is_open

    @classmethod
    def from_settings(cls, settings: AuthSettings) -> Self:
        """Read the token. Raises KeysError if its file can't be used."""
        if settings.operator_token_file is None:
            return cls(None, is_open=settings.allow_anonymous_changes)
        try:
            token = settings.operator_token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise KeysError(f"{settings.operator_token_file}: {error}") from error
        if len(token) < _MIN_LENGTH:
            raise KeysError(f"{settings.operator_token_file}: the token must have at least {_MIN_LENGTH} characters")
        return cls(token, is_open=settings.allow_anonymous_changes)

    def check(self, credential: str | None) -> None:
        """Raise MissingOperatorToken or InvalidOperatorToken unless a change with this credential is admitted."""
        if self._is_open:
            return
        if credential is None:
            raise MissingOperatorToken
        if self._token is None or not hmac.compare_digest(credential.encode(), self._token.encode()):
            raise InvalidOperatorToken
