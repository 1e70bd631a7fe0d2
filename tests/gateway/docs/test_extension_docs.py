"""docs/api/extensions.md agrees with the pages' own tables, whose rows are tested one by one."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gateway.dialects.openai.chat import ChatCompletionBody
from gateway.dialects.openai.completion import OpenAICompletionBody
from tests.gateway.docs.test_docs import DOCS, TABLES, Table

COLUMNS = {
    "POST /v1/chat/completions": 2,
    "POST /v1/completions": 3,
    "POST /v1/responses": 4,
}
ABSENT = "-"
PAGES = [table for table in TABLES if table.page in {"openai", "responses"} and table.route in COLUMNS]


def rows() -> list[list[str]]:
    """Return the cells of each row of the table of fields."""
    section = (DOCS / "extensions.md").read_text().partition("\n## Fields\n")[2].partition("\n## ")[0]
    table = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]


@pytest.mark.parametrize("table", PAGES, ids=[table.route for table in PAGES])
def test_extensions_are_the_non_openai_fields_of_the_page(table: Table) -> None:
    """Exactly the fields that a page marks as not OpenAI's have a row here, with the same effect."""
    effects = {row[0].strip("`"): row[COLUMNS[table.route]] for row in rows()}
    marked = {name: effect for name, _, effect, note in table.rows() if note.startswith("not OpenAI's")}
    theirs = {"response_format"} if table.route == "POST /v1/chat/completions" else set()  # OpenAI's with more kinds
    assert {name: effect for name, effect in effects.items() if effect != ABSENT and name not in theirs} == marked


def test_every_extension_is_listed_once() -> None:
    """Each extension has one row, which names a server."""
    names = [row[0] for row in rows()]
    assert len(names) == len(set(names))
    assert all(len(row) == 6 and row[1] for row in rows())


def test_extension_of_chats_and_completions_has_one_type() -> None:
    """A field of both chats and completions has the same type in both."""
    bodies = [
        {field.name: field.type for field in msgspec.structs.fields(body)}
        for body in (ChatCompletionBody, OpenAICompletionBody)
    ]
    chat, completion = bodies
    shared = {row[0].strip("`") for row in rows()} & chat.keys() & completion.keys()
    assert len(shared) > 20
    assert {name: chat[name] for name in shared} == {name: completion[name] for name in shared}


def test_page_is_linked() -> None:
    """The page of all dialects links to the page."""
    assert "(api/extensions.md)" in (Path(DOCS).parent / "api.md").read_text()
