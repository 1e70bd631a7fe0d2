"""Verify receipts, and compare the receipts of two answers to one request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import jwt
from jwt.exceptions import PyJWTError

from service.receipts.signing_key import ALGORITHM, TYPE
from service.receipts.token_chain import first_difference

# Claims that are equal in all receipts of one answer, with the words for an error; `tokens` are compared by choice.
_SAME: Final = {
    "model": "the model",
    "weights": "the weights",
    "adapter": "the adapter",
    "system_fingerprint": "the system fingerprint",
    "request": "the request",
    "seed": "the seed",
}
_CHOICE: Final = {"num_tokens": int, "digest": str, "checksums": str}


class InvalidReceipt(Exception):  # noqa: N818  a name states the condition
    """A receipt that can't be trusted; the text is one line."""


def verify(receipt: str, keys: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the claims of a receipt that one of the public JSON Web Keys has signed. Raise InvalidReceipt."""
    try:
        header = jwt.get_unverified_header(receipt)
        if header.get("typ") != TYPE or header.get("alg") != ALGORITHM:
            raise InvalidReceipt("it is not a receipt")
        key = next((each for each in keys if each.get("kid") == header.get("kid")), None)
        if key is None:
            raise InvalidReceipt(f"it is signed by the key {header.get('kid')!r}, which is not among the given keys")
        options: Any = {"verify_iat": False}  # the clocks of two machines may differ
        claims = jwt.decode(receipt, jwt.PyJWK(dict(key), ALGORITHM), algorithms=[ALGORITHM], options=options)
    except (PyJWTError, ValueError) as error:
        raise InvalidReceipt("its signature is wrong, or it is malformed") from error
    if not isinstance(claims.get("tokens"), list) or not all(map(_is_choice, claims["tokens"])):
        raise InvalidReceipt("it has no digest of tokens")
    return claims


def _is_choice(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(name), kind) for name, kind in _CHOICE.items())


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each difference between the claims of two verified receipts; none if the answers are equal."""
    for name, words in _SAME.items():
        if first.get(name) != second.get(name):
            yield f"{words} differs: {first.get(name)} and {second.get(name)}"
    choices, others = first["tokens"], second["tokens"]
    if len(choices) != len(others):
        yield f"the number of choices differs: {len(choices)} and {len(others)}"
    for index, (choice, other) in enumerate(zip(choices, others, strict=False)):
        if (token := first_difference(choice, other)) is not None:
            yield f"choice {index} differs from token {token} on"
