"""docs/api.md says what the code does: every row of its tables is tried."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.dialects.call import Arrival
from gateway.dialects.failure import Failure, Reason
from gateway.dialects.openai import ChatCompletionBody, OpenAITranslator

DOCS = Path(__file__).resolve().parents[2] / "docs" / "api.md"
BASE = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def rows() -> list[tuple[str, dict[str, Any], str]]:
    """(field, example, effect) of the table of fields."""
    section = DOCS.read_text().partition("### Fields of `POST /v1/chat/completions`")[2].partition("\n###")[0]
    table = [line.split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return [(cells[0].strip("| `"), json.loads("{" + cells[1].strip("`") + "}"), cells[2]) for cells in table]


def effect(fields: dict[str, Any]) -> tuple[object, ...]:
    """All that a body decides."""
    call = OpenAITranslator().parse(Arrival(json.dumps(BASE | fields).encode()))
    return call.request, call.stream, call.affinity, vars(call.encoder)


def test_table_has_every_field() -> None:
    """The table and the model of the body have the same fields."""
    assert sorted(name for name, _, _ in rows()) == sorted(f.name for f in msgspec.structs.fields(ChatCompletionBody))


@pytest.mark.parametrize(("name", "example", "said"), rows(), ids=[row[0] for row in rows()])
def test_row_is_true(name: str, example: dict[str, Any], said: str) -> None:
    """A field that is used changes the call, one without effect does not, and a refused one is refused by name."""
    rest = {other: value for other, value in example.items() if other != name}
    if said == "refused":
        with pytest.raises(Failure) as caught:
            effect(example)
        assert (caught.value.reason, caught.value.field) == (Reason.UNSUPPORTED_FIELD, name)
    else:
        assert said in {"used", "none"}
        assert (effect(example) != effect(rest)) == (said == "used")
