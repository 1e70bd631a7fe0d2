"""Signed receipts: keys in files, and what is refused."""

from __future__ import annotations

import random
import string
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from service.receipts.signing_key import KeyFileError, SigningKey, key_id, to_jwk
from service.receipts.token_chain import TokenChain
from service.receipts.verification import InvalidReceipt, differences, verify

KEY = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
KEYS = [to_jwk(KEY.public_key)]


def claims_of(*choices: list[int], **changed: Any) -> dict[str, Any]:
    tokens = []
    for choice in choices or ([1, 2, 3], [4]):
        chain = TokenChain()
        chain.add(choice)
        tokens.append(chain.claim())
    known = {"model": "m", "weights": "w", "system_fingerprint": "f", "request": "r", "seed": "7", "tokens": tokens}
    return known | changed


def test_receipt_of_the_same_claims_is_the_same_text_and_verifies() -> None:
    receipt = KEY.sign(claims_of())
    assert receipt == KEY.sign(claims_of())
    assert verify(receipt, KEYS) == claims_of()


def test_stock_library_verifies_a_receipt_with_the_published_key() -> None:
    """A receipt is a plain JSON Web Signature: PyJWT needs only the key set."""
    receipt = KEY.sign(claims_of())
    key = jwt.PyJWKSet.from_dict({"keys": KEYS})[jwt.get_unverified_header(receipt)["kid"]]
    assert jwt.decode(receipt, key, algorithms=["EdDSA"]) == claims_of()


def test_key_id_is_the_thumbprint_of_rfc_8037() -> None:
    """The example in RFC 8037, appendix A.3."""
    public_key = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    assert key_id(public_key) == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


def test_each_of_1000_tampered_receipts_is_refused() -> None:
    """One character of a receipt is replaced, removed or added anywhere."""
    rng = random.Random(3)
    receipt = KEY.sign(claims_of())
    letters = string.ascii_letters + string.digits + "-_."
    refused = 0
    while refused < 1000:
        index, letter = rng.randrange(len(receipt)), rng.choice(letters)
        tampered = receipt[:index] + rng.choice(["", letter, letter + receipt[index]]) + receipt[index + 1 :]
        if tampered == receipt:
            continue
        with pytest.raises(InvalidReceipt):
            verify(tampered, KEYS)
        refused += 1


def test_receipt_of_another_key_is_refused_even_if_it_names_the_trusted_one() -> None:
    other = Ed25519PrivateKey.generate()
    forged = jwt.encode(claims_of(), other, "EdDSA", {"kid": KEY.id, "typ": "sluice-receipt"})
    with pytest.raises(InvalidReceipt, match="signature is wrong"):
        verify(forged, KEYS)
    with pytest.raises(InvalidReceipt, match="not among the given keys"):
        verify(SigningKey(other).sign(claims_of()), KEYS)


def test_other_tokens_of_the_same_key_are_no_receipts() -> None:
    """An access token that the same key has signed, and claims without tokens."""
    private = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    with pytest.raises(InvalidReceipt, match="not a receipt"):
        verify(jwt.encode(claims_of(), private, "EdDSA", {"kid": KEY.id}), KEYS)
    wrong: list[Any] = [None, [{}], [1]]
    for tokens in wrong:
        with pytest.raises(InvalidReceipt, match="no digest of tokens"):
            verify(KEY.sign(claims_of(tokens=tokens)), KEYS)


@pytest.mark.parametrize("name", ["model", "weights", "adapter", "system_fingerprint", "request", "seed"])
def test_answers_of_other_weights_or_requests_differ(name: str) -> None:
    (line,) = differences(claims_of(), claims_of(**{name: "other"}))
    assert "differs" in line
    assert "other" in line


def test_answers_differ_at_the_first_other_token_of_each_choice() -> None:
    assert list(differences(claims_of(), claims_of())) == []
    assert list(differences(claims_of([1, 2], [3]), claims_of([1, 9], [3]))) == ["choice 0 differs from token 1 on"]
    assert list(differences(claims_of([1]), claims_of([1], [2]))) == ["the number of choices differs: 1 and 2"]


def test_created_key_is_read_again_and_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "receipts.pem"
    key = SigningKey.create(file)
    assert SigningKey.from_file(file).public_key == key.public_key
    assert file.stat().st_mode & 0o077 == 0
    with pytest.raises(KeyFileError, match="exists"):
        SigningKey.create(file)


def test_file_without_an_ed25519_key_is_refused_with_its_path(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    with pytest.raises(KeyFileError, match=r"key\.pem: No such file"):
        SigningKey.from_file(file)
    file.write_text("nothing")
    with pytest.raises(KeyFileError, match=r"key\.pem: is not a private key"):
        SigningKey.from_file(file)
    pem = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file.write_bytes(ec.generate_private_key(ec.SECP256R1()).private_bytes(*pem))
    with pytest.raises(KeyFileError, match="must be an Ed25519 key"):
        SigningKey.from_file(file)
