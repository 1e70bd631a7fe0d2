"""Which addresses only this machine reaches."""

# ruff: noqa: S104  nobody listens there

import pytest

from process.network.loopback import is_loopback


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost", "LocalHost", "localhost.", "::ffff:127.0.0.1"]
)
def test_own_addresses(host: str) -> None:
    """All of the loopback network, in any writing."""
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.1", "::ffff:10.0.0.1", "example.test", "localhost.example.test", "", "127.1"]
)
def test_others_addresses(host: str) -> None:
    """An address of all interfaces is not this machine's alone; of names nothing is believed."""
    assert not is_loopback(host)
