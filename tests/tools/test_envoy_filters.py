"""The project's Envoy filter, as embedded in envoy.yaml."""

from tools.envoy_filter import CONFIG, MARKED, source_hash


def test_the_filter_is_built_from_its_source() -> None:
    """The embedded module was built from the current source; if not, run `make envoy-filter`."""
    (found,) = MARKED.finditer(CONFIG.read_text())
    assert found[2] == source_hash()
