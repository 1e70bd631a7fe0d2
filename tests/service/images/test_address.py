"""The URLs and addresses that images may be fetched from."""

from __future__ import annotations

import pytest

from service.generation.errors import InvalidRequest
from service.images.address import check_url, is_public
from service.settings.image_settings import ImageSettings

SETTINGS = ImageSettings(allowed_hosts=["a.example", "*.b.example"], allow_http=True)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.1.2.3", "224.0.0.1",
        "255.255.255.255", "192.0.2.1", "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1",
        "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::1", "2001:db8::1", "64:ff9b:1::7f00:1",
        "::ffff:0:127.0.0.1", "::127.0.0.1", "fec0::1", "168.63.129.16", "192.88.99.1", "2002:c058:6301::1",
        "64:ff9b::c058:6301", "::ffff:192.88.99.1", "192.0.0.9", "198.18.0.1", "192.31.196.1", "192.52.193.1",
        "192.175.48.1", "100::1", "1::1", "3fff::1", "4000::1", "5f00::1", "8000::1", "e000::1", "2001::1", "2001:2::1",
        "2001:10::1", "2001:20::1", "2001:30::1", "2620:4f:8000::1",
    ],
)  # fmt: skip
def test_reserved_addresses_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]
)
def test_internet_addresses_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    ("url", "authority", "path"),
    [
        ("https://a.example/cat.png", "a.example", "/cat.png"),
        ("HTTPS://A.EXAMPLE", "a.example", "/"),
        ("https://a.example.:443/x?y=1#z", "a.example", "/x?y=1"),
        ("http://c.b.example:8080/x", "c.b.example:8080", "/x"),
    ],
)
def test_urls_of_allowed_hosts_are_parsed(url: str, authority: str, path: str) -> None:
    """A host's name is case-insensitive and may end with a dot; the fragment is not sent."""
    target = check_url(url, "f", SETTINGS)
    assert (target.authority, target.path) == (authority, path)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("https://b.example/x", "images.allowed_hosts"),
        ("https://evil-b.example/x", "images.allowed_hosts"),
        ("https://a.example.evil.example/", "images.allowed_hosts"),
        ("https://a.example@evil.example/", "a user's name"),
        ("https://evil.example\\@a.example/", "scheme"),
        ("https://a.example\t/", "scheme"),
        ("https://á.example/", "scheme"),
        ("ftp://a.example/", "scheme"),
        ("//a.example/", "scheme"),
        ("https:///x", "with a host"),
        ("https://a.example:99999/", "is not a URL"),
        ("https://[::1/", "is not a URL"),
        ("https://a.example/" + "x" * 9000, "the limit is 8192"),
    ],
)
def test_other_urls_are_rejected(url: str, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message) as raised:
        check_url(url, "f", SETTINGS)
    assert raised.value.field == "f"


def test_http_needs_a_setting() -> None:
    with pytest.raises(InvalidRequest, match=r"images\.allow_http"):
        check_url("http://a.example/", "f", ImageSettings(allowed_hosts=["*"]))


@pytest.mark.parametrize(
    ("allowed", "url", "may"),
    [
        ("a.example:8443", "https://a.example:8443/x", True),
        ("a.example:8443", "https://a.example/x", False),
        ("a.example:443", "https://a.example/x", True),
        ("a.example:443", "http://a.example/x", False),
        ("A.example:443", "https://a.EXAMPLE./x", True),
        ("*.b.example:8443", "https://x.b.example:8443/", True),
        ("*.b.example:8443", "https://x.b.example:22/", False),
        ("*:443", "https://c.example/", True),
        ("*:443", "https://c.example:22/", False),
        ("a.example", "https://a.example:22/", True),
    ],
)
def test_a_port_allows_no_other(allowed: str, url: str, *, may: bool) -> None:
    """An allowed host without a port is allowed at every port."""
    settings = ImageSettings(allowed_hosts=[allowed], allow_http=True)
    if may:
        assert check_url(url, "f", settings)
        return
    with pytest.raises(InvalidRequest, match=r"images\.allowed_hosts"):
        check_url(url, "f", settings)


@pytest.mark.parametrize(
    "host",
    ["https://a.example", "a.example/x", "*.", "a b", "", "*a.example", "a.example:", "a.example:0", "*:65536", "a:b"],
)
def test_settings_reject_invalid_hosts(host: str) -> None:
    with pytest.raises(ValueError, match="is not the name of a host"):
        ImageSettings(allowed_hosts=[host])
