"""docs/grpc_reference.md is the contract as it is now."""

from __future__ import annotations

import re

from service.interceptors.auth import SCOPES
from tools.docs.contract_reference import PAGE, PROTO, reference


def test_the_page_is_up_to_date() -> None:
    """It is what `python -m tools.docs.contract_reference` writes now."""
    assert PAGE.read_text() == reference()


def test_every_part_of_the_contract_stands_there() -> None:
    """Each RPC, message, enum and field has a place, and each link of the page leads to one."""
    text = PAGE.read_text()
    headings = set(re.findall(r"^### (.*)$", text, re.MULTILINE))
    source = "\n".join(path.read_text() for path in PROTO.rglob("*.proto"))
    assert headings == {
        *re.findall(r"^(?:message|enum) (\w+)", source, re.MULTILINE),
        *(each.removeprefix("sluice.v1.") for each in SCOPES),
    }
    assert text.count("\n| `") == len(re.findall(r" = \d+(?: \[.*\])?;$", source, re.MULTILINE))
    anchors = {each.lower().replace("/", "") for each in headings}
    assert set(re.findall(r"\(#(\w+)\)", text)) <= anchors


def test_words_for_linters_are_left_out() -> None:
    """Comments stand there as they are, in one line a paragraph, but for what only buf reads."""
    text = PAGE.read_text()
    assert "buf:lint" not in text
    meaning = "Independent answers to generate; the prompt is computed once. Range [1, 128]. Default: 1."
    assert f"| `n` | optional uint32 | {meaning} |" in text
