"""docs/models.md lists every architecture of the installed transformers, and its rows are true."""

from __future__ import annotations

import re

import pytest

from service.engine.models.plans.families.table import FAMILIES
from tests.models.table import DECODERS, EQUAL, FILE, OTHERS, read, rendered, tried

TEXT = FILE.read_text(encoding="utf-8")
ROWS = read(TEXT)


def test_the_page_lists_what_transformers_has() -> None:
    """A new version of transformers needs `make models`."""
    assert set(ROWS) == {*DECODERS, *OTHERS}


def test_the_page_is_as_it_was_made() -> None:
    """The page's counts and order follow from its rows."""
    assert rendered(TEXT, ROWS.values()) == TEXT


def test_no_architecture_answers_otherwise() -> None:
    """Served architectures have equal answers, others have a reason, and at least 70 decoders are served."""
    assert [row for row in ROWS.values() if row.backend and row.result != EQUAL] == []
    assert [
        row for row in ROWS.values() if not row.backend and not re.match("(refused|not tried): .", row.result)
    ] == []
    assert sum(ROWS[kind].result == EQUAL for kind in DECODERS) >= 70


def test_families_of_the_native_backend_are_served_by_it() -> None:
    """Every type that has a layer plan is served by the native backend."""
    assert [kind for kind in FAMILIES if kind in ROWS and ROWS[kind].backend != "native"] == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bert", "cohere2", "olmo", "openai-gpt", "opt", "xglm"])
def test_a_row_is_so(kind: str) -> None:
    """The test covers some architectures of each kind that no other test covers."""
    assert tried(kind) == ROWS[kind]


def test_what_is_refused_says_what_the_model_is() -> None:
    """No row reports a failed step."""
    refused = [row.result for row in ROWS.values() if row.result.startswith("refused")]
    assert refused
    assert not [each for each in refused if re.search(r"Error\b|trial|missing tensors", each)]
