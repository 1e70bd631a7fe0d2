"""The validity of keys."""

from typing import Any

import pytest

from service.auth.errors import AuthError, DisabledKey, ExpiredKey, InvalidKey
from service.auth.keys.key import digest, id_of, new_id, new_key
from service.auth.keys.key_ring import KeyRing
from service.generation.caller import Limits, Scope
from tests.service.auth.key_files import key_of

NEW_YEAR = 1_798_761_600.0  # 2027-01-01T00:00:00Z


def test_key_contains_its_id_and_256_random_bits() -> None:
    """A key contains its id, which may have hyphens, and two keys of the same id differ."""
    for key_id in ("a", "search-team", new_id()):
        first, second = new_key(key_id), new_key(key_id)
        assert id_of(first) == id_of(second) == key_id
        assert first != second
        assert len(first.rpartition("-")[2]) * 4 == 256


def test_entry_becomes_a_caller() -> None:
    """The caller has every right in the key's entry."""
    key, entry = key_of(
        "team", name="the team", scopes=["embed", "metrics"], models=["a-*"], endpoints=["b"],
        limits={"max_n": 2}, limits_by_model={"a-1": {"max_tokens": 3}}, min_priority=-5, weight=2.5, cache_group="g",
        slo_first_token_seconds=2, slo_token_seconds=0.1,
    )  # fmt: skip
    caller = KeyRing([entry]).caller(key, NEW_YEAR)
    assert (caller.id, caller.name) == ("team", "the team")
    assert caller.scopes == {Scope.EMBED, Scope.METRICS}
    assert (caller.models, caller.endpoints) == (("a-*",), ("b",))
    assert caller.limits.max_n == 2
    assert caller.limits.max_tokens is None
    assert isinstance(caller.limits, Limits)
    assert caller.limits_by_model["a-1"].max_tokens == 3
    assert (caller.min_priority, caller.weight, caller.cache_group) == (-5, 2.5, "g")
    assert caller.service_level == (2.0, 0.1)


def test_cached_prompts_are_private_to_a_key_by_default() -> None:
    """A key has no group unless its entry names one, so that a group may have a key's name."""
    key, entry = key_of("team")
    assert KeyRing([entry]).caller(key, NEW_YEAR).cache_group == ""


@pytest.mark.parametrize(
    "spoil",
    [
        lambda key: key[:-1] + ("0" if key[-1] != "0" else "1"),
        lambda key: key.replace("team", "teem"),
        lambda key: key.upper(),
        lambda key: key + "0",
        lambda key: key[:-1],
        lambda key: "sk-sluice-",
        lambda key: "sk-sluice-ä-" + "0" * 64,
        digest,
    ],
)
def test_modified_keys_and_hashes_are_invalid(spoil: Any) -> None:
    """A modified key, a key with another id, and the hash of a key are invalid."""
    key, entry = key_of("team")
    with pytest.raises(InvalidKey):
        KeyRing([entry]).caller(spoil(key), NEW_YEAR)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"expires": "2026-12-31T23:59:59Z"}, ExpiredKey),
        ({"expires": "2027-01-01"}, ExpiredKey),  # in UTC
        ({"disabled": True}, DisabledKey),
        ({"disabled": True, "expires": "2026-01-01"}, DisabledKey),
    ],
)
def test_only_the_holder_of_a_key_learns_that_it_expired(fields: dict[str, Any], error: type[AuthError]) -> None:
    """Only the holder of a key learns that it has expired; the id alone gets the error for unknown keys."""
    key, entry = key_of("team", **fields)
    ring = KeyRing([entry])
    with pytest.raises(error):
        ring.caller(key, NEW_YEAR)
    with pytest.raises(InvalidKey):
        ring.caller(new_key("team"), NEW_YEAR)


def test_rotated_key_is_valid_until_it_expires() -> None:
    """Both keys identify the same caller until the old one expires."""
    old = new_key("team")
    key, entry = key_of("team", previous_sha256=digest(old), previous_expires="2027-01-01T00:00:00Z")
    ring = KeyRing([entry])
    assert ring.caller(old, NEW_YEAR - 1) == ring.caller(key, NEW_YEAR - 1)
    with pytest.raises(ExpiredKey):
        ring.caller(old, NEW_YEAR)
    assert ring.caller(key, NEW_YEAR).id == "team"
