"""The project's Envoy filters, as embedded in envoy.yaml."""

from tools.envoy_filters import CONFIG, MARKED, SOURCES, source_hash


def test_the_filters_are_built_from_their_sources() -> None:
    """The embedded modules were built from the current sources; if not, run `make envoy-filters`."""
    built = {found[2]: found[3] for found in MARKED.finditer(CONFIG.read_text())}
    assert built == {source.name: source_hash(source) for source in SOURCES}
