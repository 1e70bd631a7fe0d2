"""Bytes as text in base64url without padding, as in JSON Web Signatures."""

from __future__ import annotations

import base64


def to_text(data: bytes | bytearray) -> str:
    """Return the text of bytes."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_text(text: str) -> bytes:
    """Return the bytes of a text. Raise ValueError."""
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
