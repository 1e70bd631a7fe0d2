"""What counts as near enough to be suggested."""

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
def test_suggestion_is_near_or_none(name: str, expected: str) -> None:
    """The nearest of all that are near; nothing where none is."""
    assert suggestion(name, ["host", "port", "models"]) == expected


def test_shared_prefix_makes_no_names_alike() -> None:
    """Only what stands behind it is compared."""
    known = ["SLUICE_SERVICE_HOST", "SLUICE_SERVICE_PORT"]
    assert suggestion("SLUICE_SERVICE_NOPE", known, "SLUICE_SERVICE_") == ""
    assert suggestion("SLUICE_SERVICE_HOTS", known, "SLUICE_SERVICE_") == "; did you mean SLUICE_SERVICE_HOST?"
