"""The key that encrypts content at rest, read from a file."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Final

_KEY_SIZE: Final = 32  # bytes


class EncryptionKeyError(Exception):
    """A key file that can't be used; the text is one line that begins with its path."""


def read_encryption_key(path: Path) -> bytes:
    """Return the key in a file: 32 bytes in base64. Raise EncryptionKeyError."""
    try:
        key = base64.b64decode(path.read_bytes().strip(), validate=True)
    except OSError as error:
        raise EncryptionKeyError(f"{path}: {error.strerror}") from error
    except binascii.Error as error:
        raise EncryptionKeyError(f"{path}: is not base64") from error
    if len(key) != _KEY_SIZE:
        raise EncryptionKeyError(f"{path}: the key must have {_KEY_SIZE} bytes (got {len(key)})")
    return key
