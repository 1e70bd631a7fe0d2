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


def test_long_names_are_not_compared() -> None:
    """The time of a comparison has a bound, whatever a client sends."""
    assert suggestion("n" * 128, ["n" * 127]) == f"; did you mean {'n' * 127}?"
    assert suggestion("n" * 129, ["n" * 127]) == ""
    assert suggestion("n" * 127, ["n" * 129]) == ""


def test_many_known_names_are_compared_if_they_begin_alike() -> None:
    """Of more than 100 known names those with the longest common beginning are compared."""
    known = [f"endpoint-{number}" for number in range(1000)]
    assert suggestion("endpoint-77-", known) == "; did you mean endpoint-77?"
    assert suggestion("xndpoint-777", known[:100] + ["xyz"] * 100) == ""
