"""An issuer of tokens: keys of every type, a key set, and an HTTP server for it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import get_default_algorithms

ISSUER, AUDIENCE = "https://issuer.test", "sluice"
AUTH = {"issuer": ISSUER, "audience": AUDIENCE}


class Signer:
    """One key pair of an issuer."""

    def __init__(self, key_id: str | None, algorithm: str = "ES256", bits: int = 2048) -> None:
        self.key_id = key_id
        self.algorithm = algorithm
        self.private: Any
        if algorithm.startswith("ES"):
            self.private = ec.generate_private_key(ec.SECP256R1())
        elif algorithm == "EdDSA":
            self.private = ed25519.Ed25519PrivateKey.generate()
        else:
            self.private = rsa.generate_private_key(65537, bits)

    @property
    def jwk(self) -> dict[str, Any]:
        """Return the public key as a JSON Web Key."""
        jwk = json.loads(get_default_algorithms()[self.algorithm].to_jwk(self.private.public_key()))
        return {**{k: v for k, v in jwk.items() if k != "key_ops"}, **({"kid": self.key_id} if self.key_id else {})}

    @property
    def pem(self) -> bytes:
        """Return the public key as PEM text."""
        pem: bytes = self.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return pem

    def token(self, algorithm: str | None = None, **claims: Any) -> str:
        """Return a token with valid claims; `claims` replace some of them, or remove those that are None."""
        good = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": time.time() + 600, "scope": "generate"}
        payload = {name: value for name, value in {**good, **claims}.items() if value is not None}
        headers = {"kid": self.key_id} if self.key_id else None
        return jwt.encode(payload, self.private, algorithm or self.algorithm, headers)


def forged(header: dict[str, Any], secret: bytes | None, **claims: Any) -> str:
    """Return a token assembled by hand: unsigned, or signed by HMAC-SHA-256 with `secret`."""

    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    good = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": time.time() + 600, "scope": "generate"}
    text = f"{part(json.dumps(header).encode())}.{part(json.dumps({**good, **claims}).encode())}"
    signature = b"" if secret is None else hmac.new(secret, text.encode(), hashlib.sha256).digest()
    return f"{text}.{part(signature)}"


def key_set(*signers: Signer, **fields: Any) -> str:
    """Return the JSON Web Key Set of those signers, with these additional fields in each key."""
    return json.dumps({"keys": [{**signer.jwk, **fields} for signer in signers]})


class Site:
    """The response of an HTTP server, and the number of its requests."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.status = 200
        self.location = ""
        self.num_asked = 0
        self.url = ""


@contextmanager
def site(text: str) -> Iterator[Site]:
    """Run an HTTP server on a free port that answers every request with the same text."""
    state = Site(text)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.num_asked += 1
            self.send_response(state.status)
            if state.location:
                self.send_header("location", state.location)
            self.end_headers()
            self.wfile.write(state.text.encode())

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}/keys"
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
