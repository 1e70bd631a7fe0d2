"""How the parts of a snapshot's file are protected: by checksums, or by encryption that authenticates them too."""

from __future__ import annotations

import hashlib
import os
import secrets
from typing import Final, Protocol, TypeAlias

CHECK_BYTES: Final = 16  # of a checksum, and of a tag of AES-GCM
SALT_BYTES: Final = 32
NO_SALT: Final = bytes(SALT_BYTES)  # of a file that is not encrypted

_PURPOSE: Final = b"sluice cache snapshot"  # no other file's key is derived with it

Part: TypeAlias = bytes | bytearray | memoryview


class Protection(Protocol):
    """Protects the parts of one file. A part is read only with the number of its own and the context of its writing.

    `salt` is stored in the file's header.
    """

    salt: bytes

    def close(self, number: int, context: bytes, part: Part) -> tuple[Part, bytes]:
        """Return a part as it is stored, which is valid until the next call, and its check."""

    def read(self, file: int, offset: int, target: memoryview, *, number: int, context: bytes, check: bytes) -> bool:
        """Read a part from a file into `target`. Return whether it is as it was closed; if not, ignore `target`."""


class Checksums:
    """Detects damage. Every reader of the file can read its parts."""

    salt = NO_SALT

    def close(self, number: int, context: bytes, part: Part) -> tuple[Part, bytes]:
        return part, _checksum(_nonce(number), context, part)

    def read(self, file: int, offset: int, target: memoryview, *, number: int, context: bytes, check: bytes) -> bool:
        num_read = os.preadv(file, [target], offset)
        return num_read == len(target) and _checksum(_nonce(number), context, target) == check


class Encryption:
    """AES-256 in Galois/counter mode, with a key that is derived from a key of the settings for one file only.

    The number of a part is its nonce, so no number is closed twice.
    """

    def __init__(self, key: bytes, salt: bytes) -> None:
        # Imported late: most services encrypt nothing.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415
        from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415

        self.salt = salt
        self._cipher = AESGCM(HKDF(SHA256(), 32, salt, _PURPOSE).derive(key))
        self._buffer = bytearray()

    @classmethod
    def of_new_file(cls, key: bytes) -> Encryption:
        """Return the encryption of a file that is written now."""
        return cls(key, secrets.token_bytes(SALT_BYTES))

    def close(self, number: int, context: bytes, part: Part) -> tuple[Part, bytes]:
        sealed = self._space(len(part))
        self._cipher.encrypt_into(_nonce(number), part, context, sealed)
        return sealed[:-CHECK_BYTES], bytes(sealed[-CHECK_BYTES:])

    def read(self, file: int, offset: int, target: memoryview, *, number: int, context: bytes, check: bytes) -> bool:
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415

        sealed = self._space(len(target))
        if os.preadv(file, [sealed[:-CHECK_BYTES]], offset) != len(target):
            return False
        sealed[-CHECK_BYTES:] = check
        try:
            self._cipher.decrypt_into(_nonce(number), sealed, context, target)
        except InvalidTag:
            return False
        return True

    def _space(self, num_bytes: int) -> memoryview:
        """Return memory for an encrypted part of `num_bytes` and its check."""
        num_bytes += CHECK_BYTES
        if len(self._buffer) < num_bytes:
            self._buffer = bytearray(num_bytes)
        return memoryview(self._buffer)[:num_bytes]


def _nonce(number: int) -> bytes:
    return number.to_bytes(12, "little")


def _checksum(*parts: Part) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.digest()[:CHECK_BYTES]
