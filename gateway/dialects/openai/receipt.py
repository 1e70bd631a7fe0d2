"""The public keys of receipts, as a JSON Web Key Set (RFC 7517)."""

from __future__ import annotations

import base64

import orjson
from sluice.v1.receipt_pb2 import ListReceiptKeysResponse


def to_key_set(keys: ListReceiptKeysResponse) -> bytes:
    """Return the body of `GET /v1/receipt_keys`."""
    return orjson.dumps(
        {
            "keys": [
                {
                    "kty": "OKP",
                    "crv": "Ed25519",
                    "x": base64.urlsafe_b64encode(key.public_key).rstrip(b"=").decode(),
                    "kid": key.id,
                    "alg": "EdDSA",
                    "use": "sig",
                }
                for key in keys.keys
            ]
        }
    )
