"""The URLs from which images may be fetched, by the settings and by the kind of the host's network."""

from __future__ import annotations

import ipaddress
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import SplitResult, urlsplit

from service.generation.errors import InvalidRequest
from service.settings.image_settings import ImageSettings

MAX_URL: Final = 8192  # characters
_PORTS: Final = {"https": 443, "http": 80}
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
_UNICAST: Final = ipaddress.ip_network("2000::/3")  # IPv6's only range of public addresses, apart from NAT64's
# Networks that some versions of `ipaddress` call global: IANA's registries of special-purpose addresses, and a cloud's
# internal service for its machines.
_NOT_PUBLIC: Final = [
    ipaddress.ip_network(each)
    for each in (
        "192.0.0.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.175.48.0/24", "168.63.129.16/32",
        "2001::/23", "2620:4f:8000::/48", "3fff::/20",
    )
]  # fmt: skip

_Ip: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


class Target(NamedTuple):
    """The parts of a checked http URL."""

    scheme: str
    host: str
    port: int
    path: str  # including the query

    @property
    def authority(self) -> str:
        """The host and the port, as in requests."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The whole URL."""
        return f"{self.scheme}://{self.authority}{self.path}"


def check_url(url: str, field: str, settings: ImageSettings) -> Target:
    """Return the parts of a URL that may be fetched. Raise InvalidRequest for `field` with the forbidding setting."""
    if not settings.allowed_hosts:
        raise InvalidRequest(
            field, "images are not fetched by URL here (images.allowed_hosts); send a data URL: data:image/png;base64,…"
        )
    if len(url) > MAX_URL:
        raise InvalidRequest(field, f"the URL has {len(url)} characters; the limit is {MAX_URL}")
    parts, host, port = _split(url, field)
    if parts.scheme not in _PORTS or (parts.scheme == "http" and not settings.allow_http):
        allowed = "https, http and data" if settings.allow_http else "https and data (images.allow_http)"
        raise InvalidRequest(field, f"the URL's scheme must be one of {allowed}")
    query = f"?{parts.query}" if parts.query else ""
    target = Target(parts.scheme, host, port or _PORTS[parts.scheme], (parts.path or "/") + query)
    if not any(_matches(target, allowed) for allowed in settings.allowed_hosts):
        raise InvalidRequest(
            field, f"images are not fetched from the host {target.authority[:256]!r} (images.allowed_hosts)"
        )
    return target


def is_public(address: str) -> bool:
    """Return True if an IP address is public, and the address that it embeds, if any, is public too."""
    ip: _Ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = [ip.ipv4_mapped, ip.sixtofour, *(ip.teredo or ())]
        if ip in _NAT64:
            inner.append(ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF))
        if carried := [each for each in inner if each is not None]:
            return all(_is_public(each) for each in carried)
    return _is_public(ip)


def _is_public(ip: _Ip) -> bool:
    """Return whether an address is reachable from the whole internet."""
    if isinstance(ip, ipaddress.IPv6Address) and ip not in _UNICAST:
        return False
    return ip.is_global and not ip.is_multicast and not any(ip in network for network in _NOT_PUBLIC)


def _split(url: str, field: str) -> tuple[SplitResult, str, int | None]:
    """Return a URL's parts, host and port. Raise InvalidRequest if URL parsers could interpret them differently."""
    # Parsers treat other characters differently, and the checked URL must be the requested one.
    is_plain = url.isascii() and url.isprintable() and " " not in url and "\\" not in url
    try:
        parts = urlsplit(url if is_plain else "")
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        raise InvalidRequest(field, "is not a URL") from None
    if parts.scheme in _PORTS and (not host or parts.username is not None or parts.password is not None):
        raise InvalidRequest(field, "must be a URL with a host, and without a user's name and password")
    return parts, host, port


def _matches(target: Target, allowed: str) -> bool:
    """Return whether an entry of the allowed hosts, HOST or HOST:PORT, matches the target."""
    name, _, port = allowed.partition(":")
    if port and int(port) != target.port:
        return False
    return target.host.endswith(name[1:]) if name.startswith("*.") else name in {"*", target.host}
