"""Recognition of loopback addresses."""

# ruff: noqa: S104  nothing listens on these addresses

import pytest

from process.network.loopback import is_loopback


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost", "LocalHost", "localhost.", "::ffff:127.0.0.1"]
)
def test_loopback_addresses_are_recognised(host: str) -> None:
    """All of the loopback network is recognised, in any notation."""
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.1", "::ffff:10.0.0.1", "example.test", "localhost.example.test", "", "127.1"]
)
def test_other_addresses_and_names_are_not_loopback(host: str) -> None:
    """The address of all interfaces is not a loopback address, and names other than localhost are not trusted."""
    assert not is_loopback(host)
