"""The similarity of names for suggestions."""

from __future__ import annotations

import pytest

from process.settings.names import suggestion


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("prot", "; did you mean port?"),
        ("ports", "; did you mean port?"),
        ("model_s", "; did you mean models?"),
        ("target", ""),
        ("", ""),
    ],
)
def test_suggestion_is_similar_or_empty(name: str, expected: str) -> None:
    """The most similar known name is suggested, if any is similar enough."""
    assert suggestion(name, ["host", "port", "models"]) == expected


def test_shared_prefix_is_not_compared() -> None:
    """Only the parts after the prefix are compared."""
    known = ["SLUICE_SERVICE_HOST", "SLUICE_SERVICE_PORT"]
    assert suggestion("SLUICE_SERVICE_NOPE", known, "SLUICE_SERVICE_") == ""
    assert suggestion("SLUICE_SERVICE_HOTS", known, "SLUICE_SERVICE_") == "; did you mean SLUICE_SERVICE_HOST?"
