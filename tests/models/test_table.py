"""docs/models.md tells of every architecture that the installed transformers has, and what it tells is so."""

from __future__ import annotations

import re

import pytest

from tests.models.table import DECODERS, EQUAL, FILE, OTHERS, read, rendered, tried

TEXT = FILE.read_text(encoding="utf-8")
ROWS = read(TEXT)


def test_the_page_lists_what_transformers_has() -> None:
    """A new version of transformers needs `make models`."""
    assert set(ROWS) == {*DECODERS, *OTHERS}


def test_the_page_is_as_it_was_made() -> None:
    """Its counts and its order follow from its rows."""
    assert rendered(TEXT, ROWS.values()) == TEXT


def test_no_architecture_answers_otherwise() -> None:
    """What is served is equal; what isn't says why; at least 70 decoders are served."""
    assert [row for row in ROWS.values() if row.backend and row.result != EQUAL] == []
    assert [
        row for row in ROWS.values() if not row.backend and not re.match("(refused|not tried): .", row.result)
    ] == []
    assert sum(ROWS[kind].result == EQUAL for kind in DECODERS) >= 70


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bert", "cohere2", "olmo", "openai-gpt", "stablelm", "xglm"])
def test_a_row_is_so(kind: str) -> None:
    """Some of each kind, that no other test tries."""
    assert tried(kind) == ROWS[kind]


def test_what_is_refused_says_what_the_model_is() -> None:
    """No row tells of a step that was tried and failed."""
    refused = [row.result for row in ROWS.values() if row.result.startswith("refused")]
    assert refused
    assert not [each for each in refused if re.search(r"Error\b|trial|missing tensors", each)]
