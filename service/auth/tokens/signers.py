"""The signing keys of tokens: a JSON Web Key Set from a file or a URL, kept up to date.

If a URL can't be fetched, the previous keys stay. Only public keys for signatures are accepted, each for the algorithms
of its type; secret keys and keys for encryption are ignored.
"""

from __future__ import annotations

import json
import logging
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from jwt import PyJWK
from jwt.exceptions import PyJWTError

_TIMEOUT_S: Final = 5.0
_MAX_BYTES: Final = 1 << 20
_FAMILIES: Final = {  # algorithms by key type and curve; symmetric keys (oct) have none
    ("RSA", None): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
_MIN_RSA_BITS: Final = 2048

_log = logging.getLogger(__name__)


class SignersError(Exception):
    """An invalid key set; the text is one line that begins with its location."""


class Signers:
    """An immutable key set: verification keys by id and algorithm."""

    def __init__(self, keys: Iterable[Mapping[str, Any]], algorithms: Iterable[str]) -> None:
        """`keys` are JSON Web Keys; those that can't be used for `algorithms` are ignored."""
        self._keys: dict[tuple[str | None, str], PyJWK] = {}
        self._ids: set[str | None] = set()
        allowed = frozenset(algorithms)
        for key in keys:
            for algorithm in allowed.intersection(_algorithms(key)):
                if (verification_key := _verification_key(key, algorithm)) is not None:
                    self._keys[key.get("kid"), algorithm] = verification_key
                    self._ids.add(key.get("kid"))

    def __len__(self) -> int:
        return len(self._ids)

    def find(self, key_id: str | None, algorithm: str) -> PyJWK | None:
        """Return the key with that id for that algorithm; without an id, the only key of the set."""
        if key_id is None and len(self._ids) == 1:
            (key_id,) = self._ids
        return self._keys.get((key_id, algorithm))


def read_signers(location: str, algorithms: Iterable[str]) -> Signers:
    """Return the key set at `location`, a path or a URL. May take seconds. Raise SignersError."""
    try:
        text = _fetch(location) if is_url(location) else Path(location).read_bytes()
        document = json.loads(text)
        keys = document["keys"]
        found = Signers([key for key in keys if isinstance(key, dict)], algorithms)
    except (OSError, HTTPException) as error:
        raise SignersError(f"{location}: {_reason(error)}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SignersError(f"{location}: not a JSON Web Key Set") from error
    if not len(found):
        raise SignersError(f"{location}: has no key for the algorithms allowed")
    return found


def is_url(location: str) -> bool:
    """Return whether a location is a URL instead of a path."""
    return urlsplit(location).scheme in {"http", "https"}


def _algorithms(key: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the algorithms that a JSON Web Key can verify; none for a key that doesn't verify signatures."""
    if key.get("use", "sig") != "sig" or not isinstance(key.get("kid"), str | None):
        return ()
    kind = str(key.get("kty"))
    family = _FAMILIES.get((kind, None if kind == "RSA" else str(key.get("crv"))), ())
    algorithm = key.get("alg")
    return family if algorithm is None else tuple(each for each in family if each == algorithm)


def _verification_key(key: Mapping[str, Any], algorithm: str) -> PyJWK | None:
    """Return the verification key of a JSON Web Key; None if it is invalid or too short."""
    try:
        verification_key = PyJWK(dict(key), algorithm)
    except PyJWTError:
        _log.warning("a key of the key set can't be used", extra={"fields": {"kid": key.get("kid")}})
        return None
    return (
        None
        if getattr(verification_key.key, "key_size", _MIN_RSA_BITS) < _MIN_RSA_BITS and key["kty"] == "RSA"
        else verification_key
    )


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Rejects redirects: key sets are read from the configured URL only."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _fetch(url: str) -> bytes:
    """Return the document at a URL, without following redirects. Raise OSError, HTTPException or ValueError."""
    opener = urllib.request.build_opener(_NoRedirect())
    with opener.open(url, timeout=_TIMEOUT_S) as answer:
        text: bytes = answer.read(_MAX_BYTES + 1)
    if len(text) > _MAX_BYTES:
        raise ValueError("too large")
    return text


def _reason(error: Exception) -> str:
    """Return why a key set could not be read, without the location."""
    if isinstance(error, urllib.error.HTTPError):
        return f"status {error.code}"
    if isinstance(error, urllib.error.URLError):
        return str(error.reason)
    return (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
