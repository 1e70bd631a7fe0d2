"""The size of a page of items: a long one would be built and sent in one step, in which nothing else is served."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from sluice.v1 import conversation_pb2, stored_response_pb2

MAX_PAGE_BYTES: Final = 2 << 20  # half of what gRPC clients receive by default; a larger item is a page of its own
_PAGE_SIZE: Final = 20  # items; the default

Paged: TypeAlias = conversation_pb2.ListConversationItemsRequest | stored_response_pb2.ListInputItemsRequest


def page_size(request: Paged) -> int:
    """Return the largest number of items on the requested page."""
    return request.page_size if request.HasField("page_size") else _PAGE_SIZE


def num_on_page(sizes: Iterable[int], max_items: int) -> int:
    """Return how many items, whose sizes in bytes are given, are on a page."""
    num_items = num_bytes = 0
    for size in sizes:
        num_bytes += size
        if num_items == max_items or (num_items and num_bytes > MAX_PAGE_BYTES):
            break
        num_items += 1
    return num_items
