"""The format of a key: `sk-sluice-ID-SECRET`, where the secret is 256 random bits in hexadecimal.

The id is not secret: it identifies the key's entry, and the caller in logs and metrics. Only the SHA-256 digest of a
key is stored. A slow hash is unnecessary for 256 random bits, and a fast one makes invalid keys cheap to reject.
"""

from __future__ import annotations

import hashlib
import re
import secrets

PREFIX = "sk-sluice-"
ID_PATTERN = r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?"

_KEY = re.compile(rf"{PREFIX}(?P<id>{ID_PATTERN})-[0-9a-f]{{64}}")
_ID_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"  # without letters that look alike
_ID_LENGTH = 12
_SECRET_BYTES = 32


def new_id() -> str:
    """Return a new random id of 60 bits."""
    return "".join(secrets.choice(_ID_LETTERS) for _ in range(_ID_LENGTH))


def new_key(key_id: str) -> str:
    """Return a new random key with that id."""
    return f"{PREFIX}{key_id}-{secrets.token_hex(_SECRET_BYTES)}"


def id_of(key: str) -> str | None:
    """Return the id in a key; None for text without a key's format."""
    return found["id"] if (found := _KEY.fullmatch(key)) else None


def digest(key: str) -> str:
    """Return the digest that is stored of a key."""
    return hashlib.sha256(key.encode()).hexdigest()
