"""The Ed25519 key that signs receipts, in a PEM file (PKCS #8), and the form of a signed receipt."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from service.receipts.base64url import to_text

ALGORITHM: Final = "EdDSA"
TYPE: Final = "sluice-receipt"  # of the signature's header, so that no other token counts as a receipt
KEY_SIZE: Final = 32  # bytes of a public key


class KeyFileError(Exception):
    """A key file that can't be used; the text is one line that begins with its path."""


class SigningKey:
    """Signs receipts."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public_key = _raw(key.public_key())  # 32 bytes
        self.id = key_id(self.public_key)

    @classmethod
    def from_file(cls, path: Path) -> SigningKey:
        """Return the key in a file. Raise KeyFileError."""
        try:
            key = serialization.load_pem_private_key(path.read_bytes(), None)
        except OSError as error:
            raise KeyFileError(f"{path}: {error.strerror}") from error
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise KeyFileError(f"{path}: is not a private key in PEM without a password") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise KeyFileError(f"{path}: must be an Ed25519 key")
        return cls(key)

    @classmethod
    def create(cls, path: Path) -> SigningKey:
        """Write a new key to a file that doesn't exist, readable by its owner only. Raise KeyFileError."""
        key = Ed25519PrivateKey.generate()
        data = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        try:
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
        except OSError as error:
            raise KeyFileError(f"{path}: {error.strerror}") from error
        return cls(key)

    def sign(self, claims: Mapping[str, Any]) -> str:
        """Return the receipt of claims: a JSON Web Signature, the same for the same claims."""
        return jwt.encode(dict(claims), self._key, ALGORITHM, {"kid": self.id, "typ": TYPE})


def key_id(public_key: bytes) -> str:
    """Return a public key's JWK thumbprint (RFC 7638)."""
    members = {"crv": "Ed25519", "kty": "OKP", "x": to_text(public_key)}
    return to_text(hashlib.sha256(json.dumps(members, separators=(",", ":"), sort_keys=True).encode()).digest())


def to_jwk(public_key: bytes) -> dict[str, str]:
    """Return a public key as a JSON Web Key (RFC 8037)."""
    return {
        "kty": "OKP",
        "crv": "Ed25519",
        "x": to_text(public_key),
        "kid": key_id(public_key),
        "alg": ALGORITHM,
        "use": "sig",
    }


def _raw(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
