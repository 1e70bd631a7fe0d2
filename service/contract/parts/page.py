"""Pages of lists that are in memory: `page_size`, `page_token` and `next_page_token`.

A token holds the position and the digest of the last item of its page, and a digest of the list. The next page begins
after that item, also if others have come or gone; if the item itself is gone, it begins at its position.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

from service.generation.errors import InvalidRequest

_TOKEN: Final = struct.Struct(">I8s8s")  # the number of items up to the page's end, its last item, the list

Item = TypeVar("Item")


class PageRequest(Protocol):
    """A request for a page of a list."""

    page_size: int
    page_token: str


def page_of(
    items: Sequence[Item], name: Callable[[Item], str], request: PageRequest, list_name: str, *, default_size: int = 0
) -> tuple[Sequence[Item], str]:
    """Return a page, and the token of the next one, which is empty after the last page.

    `default_size` is that of a request without a size; 0 for all items. `list_name` names the list with the parameters
    that select its items. Raise InvalidRequest if the token is not of this list.
    """
    begin = _begin(items, name, request.page_token, list_name) if request.page_token else 0
    size = request.page_size or default_size
    end = begin + size if size else len(items)
    page = items[begin:end]
    if end >= len(items):
        return page, ""
    token = _TOKEN.pack(end, _digest(name(page[-1])), _digest(list_name))
    return page, base64.urlsafe_b64encode(token).decode()


def _begin(items: Sequence[Item], name: Callable[[Item], str], token: str, list_name: str) -> int:
    """Return the index of the first item after a token's page."""
    try:
        end, last, token_list = _TOKEN.unpack(base64.urlsafe_b64decode(token))
    except (binascii.Error, ValueError, struct.error):
        token_list = b""
    if token_list != _digest(list_name):
        raise InvalidRequest("page_token", "is not the next_page_token of a page of this list")
    found = (index + 1 for index, item in enumerate(items) if _digest(name(item)) == last)
    return next(found, end - 1)


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()
