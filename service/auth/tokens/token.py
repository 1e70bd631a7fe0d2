"""Verify a token with its signer's key by PyJWT, and convert it to a caller.

The configured claim (`sluice`) has the fields of an entry in a keys file. If it has no scopes, the known scopes of
`scope` or `scp` apply. The issuer is trusted with all of these.
"""

from __future__ import annotations

from typing import Any

import jwt
from jwt.exceptions import (
    DecodeError,
    ExpiredSignatureError,
    ImmatureSignatureError,
    InvalidAlgorithmError,
    InvalidAudienceError,
    InvalidIssuerError,
    InvalidSignatureError,
    MissingRequiredClaimError,
    PyJWTError,
)
from pydantic import ValidationError

from service.auth.errors import AuthError, ExpiredToken, InvalidToken
from service.auth.grant import Grant
from service.auth.settings import AuthSettings
from service.auth.tokens.signers import Signers
from service.generation.caller import Caller, Scope

_REQUIRED = ("exp", "iss", "aud", "sub")
_ID_PREFIX = "jwt:"  # ids of API keys contain no colon
_MAX_SUBJECT_LENGTH = 256
_REASONS: tuple[tuple[type[PyJWTError], str], ...] = (
    (InvalidSignatureError, "its signature is wrong"),
    (InvalidAlgorithmError, "it is signed by an algorithm that is not allowed"),
    (DecodeError, "it is malformed"),
    (InvalidAudienceError, "it is for another audience"),
    (InvalidIssuerError, "it is of another issuer"),
    (ImmatureSignatureError, "its time has not come"),
)


class UnknownSigner(AuthError):  # noqa: N818  a name states the condition
    """The key set lacks the signer's key; a newer set may have it."""


def looks_like_token(credential: str) -> bool:
    """Return whether a credential has the format of a token, three parts."""
    return credential.count(".") == 2


def read_token(token: str, signers: Signers, settings: AuthSettings) -> Caller:
    """Return the holder of `token`. Raise InvalidToken, ExpiredToken or UnknownSigner."""
    try:
        header = jwt.get_unverified_header(token)
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in settings.algorithms:
            raise InvalidAlgorithmError
        if (key := signers.find(key_id, algorithm)) is None:
            raise UnknownSigner
        claims = jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            audience=settings.audience,
            issuer=settings.issuer,
            leeway=settings.leeway_s,
            options={"require": list(_REQUIRED)},
        )
    except ExpiredSignatureError as error:
        raise ExpiredToken from error
    except MissingRequiredClaimError as error:
        raise InvalidToken(f"it has no claim {error.claim}") from error
    except (PyJWTError, ValueError, TypeError) as error:
        raise InvalidToken(
            next((reason for kind, reason in _REASONS if isinstance(error, kind)), "it is malformed")
        ) from error
    return _caller(claims, settings.claim)


def _caller(claims: dict[str, Any], claim: str) -> Caller:
    """Return the caller of a token with valid claims. Raise InvalidToken."""
    subject = claims["sub"]
    if not isinstance(subject, str) or not 0 < len(subject) <= _MAX_SUBJECT_LENGTH:
        raise InvalidToken(f"sub must have 1 to {_MAX_SUBJECT_LENGTH} characters")
    granted = claims.get(claim, {})
    try:
        grant = Grant.model_validate(granted)
    except ValidationError as error:
        field = ".".join(map(str, (claim, *error.errors(include_url=False)[0]["loc"])))
        raise InvalidToken(f"its claim {field} is wrong") from error
    if "scopes" not in grant.model_fields_set:
        grant = grant.model_copy(update={"scopes": _scopes(claims)})
    name = claims.get("name")
    return grant.caller(_ID_PREFIX + subject, name if isinstance(name, str) else "")


def _scopes(claims: dict[str, Any]) -> tuple[Scope, ...]:
    """Return the known scopes in `scope`, a space-separated string, or `scp`, which may be a list."""
    listed = claims.get("scope", claims.get("scp", ""))
    names = listed.split() if isinstance(listed, str) else listed if isinstance(listed, list) else []
    return tuple(scope for scope in Scope if scope in names)
