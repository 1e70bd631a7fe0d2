"""The tables of docs/features/tools.md match the code's own descriptions.

Write them again after a change:

    RECORD_DOCS=1 python -m pytest tests/service/output/test_tool_docs.py
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from service.output.families.reasoning_families import REASONING_FAMILIES
from service.output.families.tool_families import SYNTAXES
from service.output.families.tool_syntax import BracedCall, PythonicCall, TaggedCall, ToolSyntax
from tests.service.output.families.families import FAMILIES, read

PAGE = Path(__file__).parents[3] / "docs" / "features" / "tools.md"


def held_to(syntax: ToolSyntax) -> str:
    match syntax.payload:
        case TaggedCall() | BracedCall():
            return "texts"
        case PythonicCall():
            return "values"
        case _:
            return "schema"


def calls_table() -> list[str]:
    pings = {family.syntax.name: family.ping for family in FAMILIES}
    rows = []
    for name, syntax in SYNTAXES.items():
        assert read(syntax, pings[name]) == ("", "", [("ping", "{}")])
        rows.append(f"| `{name}` | {syntax.families} | {code(pings[name])} | {held_to(syntax)} |")
    return ["| `tool_syntax` | families | a call | held to |", "|---|---|---|---|", *rows]


def reasoning_table() -> list[str]:
    rows = []
    for family in REASONING_FAMILIES:
        markers = family.markers
        answer = " … ".join(code(each) for each in (markers.answer_open, markers.answer_close) if each)
        rows.append(f"| {family.families} | {code(markers.open)} … {code(markers.close)} | {answer} |")
    return ["| families | reasoning | answer |", "|---|---|---|", *rows]


def code(text: str) -> str:
    """Return a text as code in a table's cell."""
    shown = text.replace("\n", "⏎").replace("|", r"\|")
    return f"`` {shown} ``" if "`" in shown else f"`{shown}`"


@pytest.mark.parametrize(("name", "table"), [("calls", calls_table), ("reasoning", reasoning_table)])
def test_table_is_up_to_date(name: str, table: object) -> None:
    """Each row is generated from the description that parser and grammar use, and the parser reads its call."""
    assert callable(table)
    expected = f"<!-- {name} -->\n\n" + "\n".join(table()) + f"\n\n<!-- /{name} -->"
    page = PAGE.read_text(encoding="utf-8")
    pattern = rf"<!-- {name} -->\n.*?<!-- /{name} -->"
    if "RECORD_DOCS" in os.environ:
        page = re.sub(pattern, lambda _: expected, page, flags=re.DOTALL)
        PAGE.write_text(page, encoding="utf-8")
    assert expected in page
