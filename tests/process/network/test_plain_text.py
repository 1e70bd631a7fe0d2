"""Credentials in plain text: which are logged, and how often."""

from __future__ import annotations

import logging

import pytest

from process.network.loopback import is_own_address
from process.network.plain_text import MAX_ADDRESSES, PlainTextCredentials

OWN = "192.0.2.9"  # this machine's address
KEY = {"authorization": "Bearer tulip"}


def warned(caplog: pytest.LogCaptureFixture, *looks: tuple[str, dict[str, str], bool]) -> list[str]:
    """Return the logged addresses after these requests."""
    credentials = PlainTextCredentials(lambda address: address == OWN)
    with caplog.at_level(logging.WARNING):
        for peer, headers, is_encrypted in looks:
            credentials.check(peer, headers, is_encrypted=is_encrypted)
    assert "tulip" not in caplog.text
    return [record.__dict__["fields"]["address"] for record in caplog.records]


def test_address_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """An address is logged once, however often it sends a credential under any of its names."""
    looks = [("192.0.2.1", KEY, False), ("192.0.2.1", KEY, False), ("2001:db8::1", {"api-key": "tulip"}, False)]
    assert warned(caplog, *looks) == ["192.0.2.1", "2001:db8::1"]


@pytest.mark.parametrize(
    ("peer", "headers", "is_encrypted"),
    [
        ("127.0.0.1", KEY, False),
        ("::1", KEY, False),
        ("::ffff:127.0.0.1", KEY, False),
        ("", KEY, False),
        ("192.0.2.1", KEY, True),
        ("192.0.2.1", {"accept": "text/html"}, False),
        (OWN, KEY, False),
        ("127.0.0.1", {**KEY, "x-forwarded-proto": "http", "x-forwarded-for": OWN}, False),
        ("127.0.0.1", {**KEY, "x-forwarded-proto": "https", "x-forwarded-for": "192.0.2.1"}, False),
        ("127.0.0.1", {**KEY, "x-forwarded-proto": "http", "x-forwarded-for": "192.0.2.1, 127.0.0.1"}, False),
    ],
)
def test_protected_credentials_are_not_logged(
    caplog: pytest.LogCaptureFixture, peer: str, headers: dict[str, str], *, is_encrypted: bool
) -> None:
    """This machine's addresses, TLS and requests without a credential cause no warning."""
    assert warned(caplog, (peer, headers, is_encrypted)) == []


def test_client_behind_a_proxy_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Behind Envoy, the client's own connection counts."""
    headers = {**KEY, "x-forwarded-proto": "http", "x-forwarded-for": "10.0.0.1, 192.0.2.1"}
    assert warned(caplog, ("127.0.0.1", headers, False)) == ["192.0.2.1"]


def test_number_of_logged_addresses_is_limited(caplog: pytest.LogCaptureFixture) -> None:
    """The number of logged addresses is limited."""
    looks = [(f"192.0.{number // 256}.{number % 256}", KEY, False) for number in range(MAX_ADDRESSES + 50)]
    assert len(warned(caplog, *looks)) == MAX_ADDRESSES


@pytest.mark.parametrize(("address", "is_own"), [("127.0.0.1", True), ("203.0.113.77", False), ("2001:db8::1", False)])
def test_own_addresses(address: str, *, is_own: bool) -> None:
    assert is_own_address(address) is is_own
