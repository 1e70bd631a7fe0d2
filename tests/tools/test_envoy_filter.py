"""Envoy's filter of our own: what envoy.yaml has of it."""

from tools.envoy_filter import CONFIG, MARKED, source_hash


def test_the_filter_is_built_from_its_source() -> None:
    """The bytes were made of the source as it is now; else `make envoy-filter` was forgotten."""
    (found,) = MARKED.finditer(CONFIG.read_text())
    assert found[2] == source_hash()
