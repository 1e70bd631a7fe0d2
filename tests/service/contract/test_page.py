"""Pages of lists that change between two pages."""

from __future__ import annotations

import pytest
from sluice.v1 import model_pb2

from service.contract.parts.page import page_of
from service.generation.errors import InvalidRequest


def page(names: str, size: int | None, token: str = "", list_name: str = "letters") -> tuple[str, str]:
    """Return a page of letters, and the next page's token."""
    found, following = page_of(names, str, model_pb2.ListModelsRequest(page_size=size, page_token=token), list_name)
    return "".join(found), following


@pytest.mark.parametrize(
    ("later", "second"),
    [
        ("abcdef", "cd"),
        ("xabcdef", "cd"),  # an item before the page
        ("abxcdef", "xc"),  # an item after the page
        ("acdef", "cd"),  # the page's last item is gone: by position
        ("bcdef", "cd"),  # the page's first item is gone
        ("ab", ""),  # all that follows is gone
        ("a", ""),
    ],
)
def test_page_begins_after_the_last_one(later: str, second: str) -> None:
    """Items that come or go before the end of a page neither repeat nor hide others."""
    first, token = page("abcdef", 2)
    assert first == "ab"
    assert page(later, 2, token)[0] == second


def test_last_page_has_no_token() -> None:
    """A page that is exactly full ends the list too, and so does one without a size."""
    assert page("abcd", 2, page("abcd", 2)[1]) == ("cd", "")
    assert page("abcd", None) == ("abcd", "")
    assert page("", 2) == ("", "")


@pytest.mark.parametrize("token", ["x", "ä", "AAAA", "A" * 256])
def test_invalid_token_is_rejected(token: str) -> None:
    """Text that is no token names the field."""
    with pytest.raises(InvalidRequest) as raised:
        page("abc", 2, token)
    assert raised.value.field == "page_token"


def test_token_of_another_list_is_rejected() -> None:
    """A token is valid for the list with the same parameters only."""
    _, token = page("abc", 2)
    with pytest.raises(InvalidRequest):
        page("abc", 2, token, "letters of another model")
