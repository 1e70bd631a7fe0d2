"""The validity of tokens, the callers they become, and the reloading of key sets."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from service.auth.errors import ExpiredToken, InvalidToken, SignersUnknown
from service.auth.settings import AuthSettings
from service.auth.tokens.signers import SignersError, read_signers
from service.auth.tokens.token_reader import TokenReader
from tests.service.auth.issuers import AUTH, ISSUER, Signer, forged, key_set, site

ONE = Signer("one")
RSA = Signer("rsa", "RS256")


def settings(place: str, **fields: Any) -> AuthSettings:
    """Return settings for tokens of the tests' issuer."""
    return AuthSettings(**{"jwks": place, **AUTH, **fields})


class Clock:
    """A clock whose seconds tests assign."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a file with the key set of two signers."""
    path = tmp_path / "jwks.json"
    path.write_text(key_set(ONE, RSA))
    return path


def put(path: Path, text: str) -> None:
    """Write a text to a file."""
    path.write_text(text)


def reader(path: Path, **fields: Any) -> TokenReader:
    """Return a reader of the file's key set."""
    return TokenReader(str(path), settings(str(path), **fields))


async def reason_of(reader: TokenReader, token: str) -> str:
    """Return the reason for which a token is rejected."""
    with pytest.raises(InvalidToken) as caught:
        await reader.caller(token)
    return str(caught.value).removeprefix("the token is not valid: ")


@pytest.mark.parametrize("algorithm", ["ES256", "EdDSA", "RS256", "PS256"])
async def test_valid_token_of_each_algorithm_is_accepted(path: Path, algorithm: str) -> None:
    """A token is verified with the key that its header names."""
    signer = Signer("new", algorithm)
    put(path, key_set(ONE, signer))
    caller = await reader(path).caller(signer.token())
    assert (caller.id, caller.cache_group) == ("jwt:ann", "")
    assert caller.scopes == {"generate"}
    assert (caller.models, caller.endpoints) == (("*",), ("*",))


async def test_claims_become_the_caller(path: Path) -> None:
    """The claim has the fields of an entry in a keys file."""
    granted = {
        "scopes": ["embed"], "models": ["a*"], "endpoints": ["b"], "limits": {"max_n": 2},
        "limits_by_model": {"a1": {"max_tokens": 3}}, "min_priority": -3, "weight": 2, "cache_group": "g",
    }  # fmt: skip
    caller = await reader(path).caller(ONE.token(sluice=granted, name="Ann", scope="generate admin"))
    assert (caller.name, caller.models, caller.endpoints) == ("Ann", ("a*",), ("b",))
    assert caller.scopes == {"embed"}
    assert (caller.limits.max_n, caller.limits_by_model["a1"].max_tokens) == (2, 3)
    assert (caller.min_priority, caller.weight, caller.cache_group) == (-3, 2.0, "g")


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({"scope": "openid generate endpoints:read"}, {"generate", "endpoints:read"}),
        ({"scope": None, "scp": "embed other"}, {"embed"}),
        ({"scope": None, "scp": ["embed", "tokenize"]}, {"embed", "tokenize"}),
        ({"scope": None}, set()),
        ({"scope": 7}, set()),
        ({"sluice": {"models": ["a"]}}, {"generate"}),
        ({"sluice": {"scopes": []}}, set()),
    ],
)
async def test_scopes_are_read_from_the_tokens_claims(path: Path, claims: dict[str, Any], scopes: set[str]) -> None:
    """The scopes are those of the claim, else the known ones in `scope` or `scp`; by default there are none."""
    assert (await reader(path).caller(ONE.token(**claims))).scopes == scopes


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"iss": "https://other.test"}, "it is of another issuer"),
        ({"aud": "other"}, "it is for another audience"),
        ({"nbf": time.time() + 3600}, "its time has not come"),
        ({"iss": None}, "it has no claim iss"),
        ({"aud": None}, "it has no claim aud"),
        ({"exp": None}, "it has no claim exp"),
        ({"sub": None}, "it has no claim sub"),
        ({"sub": ""}, "sub must have 1 to 256 characters"),
        ({"sub": "x" * 257}, "sub must have 1 to 256 characters"),
        ({"sluice": {"scopes": ["all"]}}, "its claim sluice.scopes.0 is wrong"),
        ({"sluice": {"weight": 0}}, "its claim sluice.weight is wrong"),
        ({"sluice": 7}, "its claim sluice is wrong"),
    ],
)
async def test_token_of_another_issuer_or_audience_is_rejected(path: Path, claims: dict[str, Any], reason: str) -> None:
    """The holder gets the reason."""
    assert await reason_of(reader(path), ONE.token(**claims)) == reason


async def test_expired_token_is_accepted_during_the_leeway(path: Path) -> None:
    """An expired token is accepted during the leeway, and not afterwards."""
    ended = ONE.token(exp=time.time() - 60)
    assert (await reader(path, leeway_s=120).caller(ended)).id == "jwt:ann"
    with pytest.raises(ExpiredToken):
        await reader(path, leeway_s=30).caller(ended)


async def test_forged_tokens_are_rejected(path: Path) -> None:
    """Unsigned tokens, and those signed with a public key as an HMAC secret, are rejected, whatever their headers."""
    read = reader(path)
    for algorithm in ("none", "None", "NONE", ""):
        unsigned = forged({"alg": algorithm, "kid": "rsa"}, None)
        assert await reason_of(read, unsigned) == "it is signed by an algorithm that is not allowed"
    for secret in (RSA.pem, RSA.pem.strip(), json.dumps(RSA.jwk).encode()):
        confused = forged({"alg": "HS256", "kid": "rsa"}, secret)
        assert await reason_of(read, confused) == "it is signed by an algorithm that is not allowed"
        assert await reason_of(read, forged({"alg": "RS256", "kid": "rsa"}, secret)) == "its signature is wrong"
    stranger = Signer("rsa", "RS256")  # the same id, another key
    assert await reason_of(read, stranger.token()) == "its signature is wrong"
    embedded = forged({"alg": "HS256", "jwk": {"kty": "oct", "k": "AAAA"}}, b"\0\0\0")
    assert await reason_of(read, embedded) == "it is signed by an algorithm that is not allowed"


@pytest.mark.parametrize("token", ["a.b.c", "..", "ä.ö.ü", "e30.e30.", "W10.e30.AA", "." * 2 + "x" * 6000])
async def test_text_that_is_not_a_token_is_malformed(path: Path, token: str) -> None:
    """Invalid text is rejected like any invalid token."""
    assert await reason_of(reader(path), token) in {
        "it is malformed",
        "it is signed by an algorithm that is not allowed",
    }


async def test_algorithm_outside_the_settings_is_rejected(path: Path) -> None:
    """An algorithm that is not in the settings is rejected, even if the key supports it."""
    assert await reason_of(reader(path, algorithms=["RS256"]), RSA.token("PS256")) == (
        "it is signed by an algorithm that is not allowed"
    )
    assert (await reader(path, algorithms=["RS256"]).caller(RSA.token())).id == "jwt:ann"


@pytest.mark.parametrize(
    "text",
    [
        "{}", "[]", "nonsense", '{"keys": []}', '{"keys": 7}', "[" * 100_000,
        key_set(ONE, use="enc"),
        key_set(RSA, alg="RS512"),
        json.dumps({"keys": [{"kty": "oct", "k": "AAAA", "kid": "secret"}]}),
        key_set(Signer("small", "RS256", bits=1024)),
    ],
)  # fmt: skip
def test_key_set_without_a_usable_key_is_rejected(path: Path, text: str) -> None:
    """Secret keys, encryption keys and short keys are not usable; the error at the start has the location."""
    put(path, text)
    with pytest.raises(SignersError, match=f"^{path}: "):
        read_signers(str(path), ("ES256", "RS256"))


async def test_token_without_key_id_uses_the_only_key(path: Path) -> None:
    """A token without a key id is verified with the only key; with several keys, it is rejected."""
    nameless = Signer(None)
    put(path, key_set(nameless))
    assert (await reader(path).caller(nameless.token())).id == "jwt:ann"
    put(path, key_set(ONE, RSA))
    assert await reason_of(reader(path), nameless.token()) == "its signer is unknown"


async def test_changed_key_set_file_is_used_immediately(path: Path) -> None:
    """A token of a new signer triggers a reload; a broken file keeps the old keys."""
    read, new = reader(path), Signer("two")
    put(path, key_set(new))
    assert (await read.caller(new.token())).id == "jwt:ann"
    put(path, "nonsense")
    await read.refresh()
    assert (await read.caller(new.token())).id == "jwt:ann"
    assert await reason_of(read, ONE.token()) == "its signer is unknown"


async def test_unknown_signer_triggers_a_fetch_of_the_key_set() -> None:
    """A token of an unknown signer triggers a fetch, at most every ten seconds for all tokens together."""
    clock, two, three = Clock(), Signer("two"), Signer("three")
    with site(key_set(ONE)) as issuer:
        read = TokenReader(issuer.url, settings(issuer.url), clock)
        assert (await read.caller(ONE.token())).id == "jwt:ann"
        assert issuer.num_asked == 1
        issuer.text = key_set(ONE, two)
        for _ in range(50):
            assert await reason_of(read, two.token()) == "its signer is unknown"
        assert issuer.num_asked == 1
        clock.now += 10
        assert (await read.caller(two.token())).id == "jwt:ann"
        assert issuer.num_asked == 2
        issuer.text = key_set(three)
        clock.now += 299
        await read.refresh()
        assert issuer.num_asked == 2
        clock.now += 1
        await read.refresh()
        assert (await read.caller(three.token())).id == "jwt:ann"
        assert issuer.num_asked == 3


async def test_fetched_keys_stay_valid_when_the_url_is_unavailable() -> None:
    """Fetched keys stay valid; without any, tokens can't be verified, and the error does not blame them."""
    clock = Clock()
    with site(key_set(ONE)) as issuer:
        never = TokenReader("http://127.0.0.1:9/", settings("http://127.0.0.1:9/"), clock)
        with pytest.raises(SignersUnknown):
            await never.caller(ONE.token())
        read = TokenReader(issuer.url, settings(issuer.url), clock)
        await read.refresh()
        for status, text in ((500, key_set(ONE)), (200, "nonsense"), (200, "x" * ((1 << 20) + 1))):
            issuer.status, issuer.text = status, text
            clock.now += 300
            await read.refresh()
            assert (await read.caller(ONE.token())).id == "jwt:ann"
    clock.now += 300
    await read.refresh()
    assert (await read.caller(ONE.token())).id == "jwt:ann"


async def test_redirects_are_not_followed() -> None:
    """A redirect is not a key set."""
    with site(key_set(ONE)) as other, site("") as issuer:
        issuer.status, issuer.location = 302, other.url
        with pytest.raises(SignersError, match="status 302"):
            read_signers(issuer.url, ("ES256",))
        assert other.num_asked == 0


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"jwks": "x", "audience": "a"}, "issuer must be set with jwks"),
        ({"jwks": "x", "issuer": ISSUER}, "audience must be set with jwks"),
        ({"jwks": "http://issuer.test/keys", **AUTH}, "jwks must be an https URL"),
        ({"jwks": "x", **AUTH, "algorithms": ["HS256"]}, "algorithms"),
        ({"jwks": "x", **AUTH, "algorithms": ["none"]}, "algorithms"),
        ({"jwks": "x", **AUTH, "allow_anonymous": True}, "allow_anonymous can.t be set with"),
    ],
)
def test_unsafe_settings_are_rejected(fields: dict[str, Any], complaint: str) -> None:
    """Settings that would accept others' tokens are rejected at the start."""
    with pytest.raises(ValueError, match=complaint):
        AuthSettings(**fields)
