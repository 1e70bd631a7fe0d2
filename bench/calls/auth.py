"""Measure the cost of checking a credential: `python -m bench.calls.auth`.

Prints microseconds per check, the median of five rounds.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import get_default_algorithms

from service.auth.authenticator import Authenticator
from service.auth.errors import AuthError
from service.auth.keys.key import digest, new_key
from service.auth.keys.key_entry import to_entry
from service.auth.keys.key_file import write_keys
from service.auth.settings import AuthSettings

_NUM_KEYS = 10_000
_NUM_CHECKS = 5_000
_ROUNDS = 5


def credentials(folder: Path) -> tuple[AuthSettings, dict[str, str]]:
    """Return settings with many keys and two signers, and credentials by description."""
    keys = {f"key-{i}": new_key(f"key-{i}") for i in range(_NUM_KEYS)}
    write_keys(
        folder / "keys.yaml", [to_entry({"id": each, "sha256": digest(key)}, each) for each, key in keys.items()]
    )
    signers: dict[str, Any] = {
        "ES256": ec.generate_private_key(ec.SECP256R1()),
        "RS256": rsa.generate_private_key(65537, 2048),
    }
    set_ = [
        {**json.loads(get_default_algorithms()[name].to_jwk(key.public_key())), "kid": name, "use": "sig"}
        for name, key in signers.items()
    ]
    (folder / "jwks.json").write_text(json.dumps({"keys": set_}))
    settings = AuthSettings(
        keys_file=folder / "keys.yaml", jwks=str(folder / "jwks.json"), issuer="https://issuer.test", audience="sluice"
    )
    claims = {"iss": settings.issuer, "aud": settings.audience, "sub": "ann", "exp": time.time() + 3600}
    tokens = {f"token {name}": jwt.encode(claims, key, name, {"kid": name}) for name, key in signers.items()}
    return settings, {
        "good key": keys["key-77"],
        "wrong key of a known id": new_key("key-77"),
        "key of an unknown id": new_key("nobody"),
        **tokens,
    }


async def check(authenticator: Authenticator, credential: str) -> float:
    """Return the microseconds of one check."""
    began = time.perf_counter()
    for _ in range(_NUM_CHECKS):
        with contextlib.suppress(AuthError):
            await authenticator.identify(credential)
    return (time.perf_counter() - began) / _NUM_CHECKS * 1e6


async def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        settings, known = credentials(Path(folder))
        authenticator = Authenticator(settings)
        for name, credential in known.items():
            rounds = [await check(authenticator, credential) for _ in range(_ROUNDS)]
            print(f"{name:24} {statistics.median(rounds):8.1f} us")


if __name__ == "__main__":
    asyncio.run(main())
