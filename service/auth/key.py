"""The format of a key: `sk-sluice-ID-SECRET`, where the secret is 256 random bits in hexadecimal.

The id is no secret: it finds the key's entry, and names the caller in logs and metrics. What is kept of a key is its
SHA-256. That is enough, since nobody can guess 256 bits, and it costs a microsecond, so that wrong keys flood nothing.
"""

from __future__ import annotations

import hashlib
import re
import secrets

PREFIX = "sk-sluice-"
ID_PATTERN = r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?"

_KEY = re.compile(rf"{PREFIX}(?P<id>{ID_PATTERN})-[0-9a-f]{{64}}")
_ID_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"  # none that looks like another
_ID_LENGTH = 12
_SECRET_BYTES = 32


def new_id() -> str:
    """An id that no key has yet, but by a chance of one in 2^60."""
    return "".join(secrets.choice(_ID_LETTERS) for _ in range(_ID_LENGTH))


def new_key(key_id: str) -> str:
    """A new key of that id."""
    return f"{PREFIX}{key_id}-{secrets.token_hex(_SECRET_BYTES)}"


def id_of(key: str) -> str | None:
    """The id that a key names; None for what doesn't look like a key."""
    return found["id"] if (found := _KEY.fullmatch(key)) else None


def digest(key: str) -> str:
    """What is kept of a key."""
    return hashlib.sha256(key.encode()).hexdigest()
