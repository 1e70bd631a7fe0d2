"""Pages of large items: each has few of them, so that no page stops other calls."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from sluice.v1 import conversation_pb2, response_item_pb2, response_pb2, stored_response_pb2

from service.contract.responses.page import MAX_PAGE_BYTES
from service.contract.responses.stored_response import to_page, to_record
from tests.service.fakes import running
from tests.service.servicers.responses.test_conversations import conversations, create, items_of, page
from tests.service.servicers.responses.test_stored_responses import storing

LARGE = "a" * (MAX_PAGE_BYTES // 2 - 100)
MEDIUM = "b" * (MAX_PAGE_BYTES // 4)
TOO_LARGE = "c" * (MAX_PAGE_BYTES + 1)
TEXTS = (LARGE, LARGE, "d", MEDIUM, TOO_LARGE, "e", TOO_LARGE)
UP = ["aad", "b", "c", "e", "c"]  # the first letters of the items on each page
DOWN = ["c", "e", "c", "bda", "a"]


def first_letters(items: Iterable[stored_response_pb2.StoredInputItem]) -> str:
    return "".join(each.item.message.content[0].text[0] for each in items)


@pytest.mark.parametrize(("descending", "expected"), [(False, UP), (True, DOWN)])
async def test_pages_of_a_conversation_are_bounded(tmp_path: Path, expected: list[str], *, descending: bool) -> None:
    """A page ends before the item with which it would be too large, and the next one continues with that item."""
    async with running(**storing(tmp_path)) as run:
        created = await create(run)
        for text in TEXTS:
            request = conversation_pb2.AddConversationItemsRequest(id=created.id, items=items_of(text))
            await conversations(run).AddConversationItems(request)
        pages = [await page(run, created.id, page_size=100, descending=descending)]
        while pages[-1].has_more:
            token = pages[-1].next_page_token
            pages.append(await page(run, created.id, page_size=100, descending=descending, page_token=token))
    assert [first_letters(each.items) for each in pages] == expected


@pytest.mark.parametrize(("descending", "expected"), [(False, UP), (True, DOWN)])
def test_pages_of_input_items_are_bounded(expected: list[str], *, descending: bool) -> None:
    """The pages of a stored response's input are those of a conversation with the same items."""
    response = response_item_pb2.Response(id="r")
    record = to_record("a", response_pb2.CreateResponseRequest(input=items_of(*TEXTS)), response)

    def page_after(item_id: str) -> stored_response_pb2.ListInputItemsResponse:
        request = stored_response_pb2.ListInputItemsRequest(id="r", page_size=100, after=item_id, descending=descending)
        return to_page(record, request)

    pages = [page_after("")]
    while pages[-1].has_more:
        pages.append(page_after(pages[-1].items[-1].id))
    assert [first_letters(each.items) for each in pages] == expected
