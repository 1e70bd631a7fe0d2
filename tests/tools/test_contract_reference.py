"""docs/grpc_reference.md matches the current contract."""

from __future__ import annotations

import re

from service.interceptors.rpcs import RPCS
from tools.docs.contract_reference import PAGE, PROTO, reference


def test_the_page_is_up_to_date() -> None:
    """The page equals the output of `python -m tools.docs.contract_reference`."""
    assert PAGE.read_text() == reference()


def test_every_element_of_the_contract_is_documented() -> None:
    """Each RPC, message, enum and field is on the page, and each link of the page has a target."""
    text = PAGE.read_text()
    headings = set(re.findall(r"^### (.*)$", text, re.MULTILINE))
    source = "\n".join(path.read_text() for path in PROTO.glob("sluice/v1/*.proto"))
    assert headings == {
        *re.findall(r"^(?:message|enum) (\w+)", source, re.MULTILINE),
        *re.findall(r"^extend [^}]* (\w+) = \d+;\n}$", source, re.MULTILINE),
        *(each.removeprefix("sluice.v1.") for each in RPCS if each.startswith("sluice.v1.")),
    }
    assert text.count("\n| `") == len(re.findall(r" = \d+(?: \[.*\])?;$", source, re.MULTILINE))
    anchors = {each.lower().replace("/", "") for each in headings}
    assert set(re.findall(r"\(#(\w+)\)", text)) <= anchors


def test_linter_directives_are_left_out() -> None:
    """Comments are unchanged, with one line per paragraph, except for buf's directives."""
    text = PAGE.read_text()
    assert "buf:lint" not in text
    meaning = "The number of independent choices to generate; the prompt is computed once. Range [1, 128]. Default: 1."
    assert f"| `n` | optional uint32 | {meaning} |" in text
