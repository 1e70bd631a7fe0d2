"""Bytes in a request, as a `data:` URL or as base64."""

from __future__ import annotations

import binascii
import re
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from service.generation.errors import InvalidRequest

_DATA_URL = re.compile(r"data:(?P<kind>[^,;]*)(?:;[^,;]*)*?(?P<base64>;base64)?,", re.IGNORECASE)
_BLANK = re.compile(r"[ \t\r\n]+")


class Media(NamedTuple):
    """Bytes with their declared type, empty if none is declared."""

    data: bytes
    kind: str


def is_data_url(url: str) -> bool:
    """Return True if the URL contains the bytes."""
    return url[:5].lower() == "data:"


def read_data_url(url: str, field: str, max_bytes: int) -> Media:
    """Return the content of a `data:` URL. Raise InvalidRequest for `field`."""
    head = _DATA_URL.match(url)
    if head is None:
        raise InvalidRequest(field, "is not a data URL, such as data:image/png;base64,…")
    text = url[head.end() :]
    if head["base64"] is None:
        data = unquote_to_bytes(text)
        check_size(len(data), field, max_bytes)
        return Media(data, head["kind"].lower())
    return Media(read_base64(text, field, max_bytes), head["kind"].lower())


def read_base64(text: str, field: str, max_bytes: int) -> bytes:
    """Return the bytes of base64 text in either alphabet, with or without padding. Raise InvalidRequest for `field`."""
    check_size(len(text) * 3 // 4 - 2, field, max_bytes)
    plain = _BLANK.sub("", text).replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return binascii.a2b_base64(plain + "=" * (-len(plain) % 4), strict_mode=True)
    except ValueError as error:
        raise InvalidRequest(field, f"is not base64: {error}") from error


def check_size(num_bytes: int, field: str, max_bytes: int) -> None:
    """Raise InvalidRequest for an image with too many bytes."""
    if num_bytes > max_bytes:
        raise InvalidRequest(field, f"the image has more than {max_bytes} bytes, which is the limit (images.max_bytes)")
