"""Encryption at rest: AES-256 in Galois/counter mode, with a key from a file."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

from service.storage.encryption_key import EncryptionKeyError, read_encryption_key
from service.storage.responses.port import StoreFailed

_NONCE_SIZE: Final = 12


class Seal:
    """Encrypts and authenticates values. Each is bound to a context, so that none can take another's place."""

    OVERHEAD: Final = _NONCE_SIZE + 16  # bytes by which an encrypted value is longer: the nonce and the tag

    def __init__(self, key: bytes) -> None:
        """`key` has 32 bytes."""
        # Imported late: most services encrypt nothing.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

        self._cipher = AESGCM(key)

    @classmethod
    def from_file(cls, path: Path) -> Seal:
        """Return the seal with the key in a file: 32 bytes in base64. Raise StoreFailed."""
        try:
            return cls(read_encryption_key(path))
        except EncryptionKeyError as error:
            raise StoreFailed(str(error)) from error

    def close(self, data: bytes, context: str) -> bytes:
        """Return the encrypted value."""
        nonce = secrets.token_bytes(_NONCE_SIZE)
        return nonce + self._cipher.encrypt(nonce, data, context.encode())

    def open(self, sealed: bytes, context: str) -> bytes:
        """Return the value. Raise StoreFailed if it was changed, moved, or encrypted with another key."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415

        try:
            return self._cipher.decrypt(sealed[:_NONCE_SIZE], sealed[_NONCE_SIZE:], context.encode())
        except (InvalidTag, ValueError) as error:  # ValueError for a value that is too short
            raise StoreFailed("a value is damaged, or encrypted with another key") from error
